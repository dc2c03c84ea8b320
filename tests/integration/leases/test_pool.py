"""What the pool keeps in the database: warm cards, gangs, quarantine, run times, what those who wait hear."""

import asyncio
from typing import Any

import pytest

from infra import fleet, generations, leases
from infra.db import Database, Query
from tests.support.eventually import eventually
from tests.support.generations import SNAPSHOT, Ways, order, request
from workers.orchestration.placer import Placer
from workers.runtime import Stop
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import (
    AcceptLease,
    Admission,
    Advance,
    LeaseGrant,
    ModelSnapshot,
    PlacementNeeds,
    Release,
    ResidentNeed,
)
from workflows.contracts.hosts import Loaded
from workflows.contracts.states import Phase, Status
from workflows.domain.placement.fleet import Given, Share, Standing

WEIGHTS = ResidentNeed(name="flux/unet", mib=1000, load_s=10.0)
CARD_ROW = Query(
    "card_row",
    "select lease_id, quarantined_at, quarantine_reason, faults_in_row, free_at from card where uuid = %(uuid)s",
)
OPEN_LEASES = Query("open_leases", "select task_id, card_uuid from lease where state <> 'ended' order by task_id")
QUARANTINE = Query(
    "quarantine", "update card set quarantined_at = now(), quarantine_reason = 'a test' where uuid = %(uuid)s"
)


def model(**needs: Any) -> ModelSnapshot:
    """A model with these needs."""
    return SNAPSHOT.model_copy(update={"placement": PlacementNeeds(**{"run_s": 5.0, **needs})})


async def card(database: Database, uuid: str) -> dict[str, Any]:
    async with database.read() as reader:
        row = await reader.one(CARD_ROW, uuid=uuid)
    assert row is not None
    return row


async def leased(database: Database) -> list[tuple[str, str]]:
    async with database.read() as reader:
        return [(row["task_id"], row["card_uuid"]) for row in await reader.all(OPEN_LEASES)]


async def offer(database: Database, task_id: str, *cards: str) -> bool:
    async with database.single_statement() as tx:
        return await leases.offer(tx, Given(task_id, cards, expected_s=7.0))


async def run(ways: Ways, admitted: Admission) -> LeaseGrant:
    """The host fetches the order."""
    lease = admitted.lease
    assert lease is not None
    async with ways.database.single_statement() as tx:
        await leases.open_order(tx, order(admitted.task_id, lease))
    return lease


async def fail(ways: Ways, task_id: str, code: Code = Code.UPSTREAM_FAILED) -> None:
    async with ways.database.single_statement() as tx:
        await generations.release(
            tx,
            Release(
                task_id=task_id,
                status=Status.FAILED,
                failure=Failure(code=code, message="It failed."),
                lease_id=None,
                actor="workflow:test",
            ),
        )


async def test_an_admission_takes_the_warm_card_before_a_smaller_cold_one(ways: Ways) -> None:
    await ways.report("a-small", vram_total_mib=2000)
    await ways.report("b-warm", vram_total_mib=9000, residents=(Loaded(name="flux/unet", mib=1000),))
    admitted = await ways.admit(request(await ways.account(), model=model(residents=(WEIGHTS,))))
    assert admitted.lease is not None
    assert admitted.lease.card_uuid == "b-warm"


async def test_an_admission_takes_no_card_that_somebody_waits_for(ways: Ways) -> None:
    account = await ways.account()
    other = SNAPSHOT.model_copy(update={"capability": "video"})
    await ways.admit(request(account, model=other))  # waits: there is no card yet
    await ways.report("shared", vram_total_mib=600, capabilities=("video", "image_upscale"))
    await ways.report("ours-alone", capabilities=("image_upscale",))
    admitted = await ways.admit(request(account))
    assert admitted.lease is not None
    assert admitted.lease.card_uuid == "ours-alone"
    assert (await ways.admit(request(account))).lease is None


async def test_memory_of_others_and_the_reserve_count(ways: Ways) -> None:
    account = await ways.account()
    budget = SNAPSHOT.vram_budget_mib
    await ways.report("full", vram_total_mib=budget + 300, foreign_mib=301)
    assert (await ways.admit(request(account))).lease is None
    await ways.report("tight", vram_total_mib=budget + 99, capabilities=("other",))
    needs = SNAPSHOT.model_copy(
        update={"capability": "other", "placement": PlacementNeeds(run_s=1.0, reserve_mib=100)}
    )
    assert (await ways.admit(request(account, model=needs))).lease is None


async def test_a_gang_gets_all_its_cards_or_none_and_gives_all_back(ways: Ways, database: Database) -> None:
    pair = request(await ways.account(), model=model(cards=2))
    await ways.report("a")
    await ways.report("b")
    assert (await ways.admit(pair)).lease is None, "one card isn't enough, so the placer decides"
    other = await ways.admit(request(await ways.account(), model=model()))
    assert other.lease is None, "somebody waits who could use any of them"
    assert not await offer(database, pair.task_id, "a", "gone")
    assert (await card(database, "a"))["lease_id"] is None
    assert await offer(database, pair.task_id, "a", "b")
    held = [(await card(database, uuid))["lease_id"] for uuid in ("a", "b")]
    assert held[0] == held[1]
    assert held[0] is not None
    assert await ways.breaches() == []
    assert not await offer(database, other.task_id, "b")
    await fail(ways, pair.task_id)
    assert [(await card(database, uuid))["lease_id"] for uuid in ("a", "b")] == [None, None]
    assert await offer(database, other.task_id, "b")
    assert await ways.breaches() == []


async def test_the_third_fault_in_a_row_puts_a_card_into_quarantine(ways: Ways, database: Database) -> None:
    account = await ways.account()
    await ways.report("a")
    for faults in (1, 2, 3):
        lease = await run(ways, await ways.admit(request(account)))
        await fail(ways, (await leased(database))[0][0])
        await ways.report("a", settled_fence=lease.fence)
        assert (await card(database, "a"))["faults_in_row"] == faults
    row = await card(database, "a")
    assert row["quarantine_reason"] == "3 faults in a row, the last upstream_failed"
    assert (await ways.admit(request(account))).lease is None
    async with database.read() as reader:
        (seen,), _ = await leases.snapshot(reader)
    assert seen.card.standing is Standing.QUARANTINED


@pytest.mark.parametrize("code", [Code.CANCELED, Code.EXPIRED, Code.MEDIA_VALIDATION_FAILED])
async def test_what_is_not_the_cards_fault_does_not_count(ways: Ways, database: Database, code: Code) -> None:
    await ways.report("a")
    admitted = await ways.admit(request(await ways.account()))
    await run(ways, admitted)
    await fail(ways, admitted.task_id, code)
    assert (await card(database, "a"))["faults_in_row"] == 0


async def test_a_good_run_clears_the_faults(ways: Ways, database: Database) -> None:
    account = await ways.account()
    await ways.report("a")
    for good in (False, False, True, False, False):
        asked = request(account)
        lease = await run(ways, await ways.admit(asked))
        if good:
            await ways.keep(asked)
            await ways.settle(asked.task_id)
        else:
            await fail(ways, asked.task_id)
        await ways.report("a", settled_fence=lease.fence)
    assert (await card(database, "a"))["faults_in_row"] == 2
    assert (await card(database, "a"))["quarantined_at"] is None


async def test_a_card_in_quarantine_takes_its_own_canary_and_comes_back_by_it(
    ways: Ways, database: Database
) -> None:
    await ways.report("a")
    await ways.report("b")
    async with database.transaction() as tx:
        await tx.run(QUARANTINE, uuid="a")
    canary = request("house", price=0, is_canary=True, model=model(cards=2, only_card="a"))
    await ways.admit(canary)  # of two cards, so that it has to be offered
    assert not await offer(database, canary.task_id, "b"), "it was asked of the other card"
    assert await offer(database, canary.task_id, "a")
    async with database.read() as reader:
        grant = await reader.one(
            Query("grant", "select id::text as lease_id, fence from lease where task_id = %(task_id)s"),
            task_id=canary.task_id,
        )
    assert grant is not None
    lease = LeaseGrant(card_uuid="a", card_label="A", **grant)
    async with database.single_statement() as tx:
        await leases.accept(tx, AcceptLease(task_id=canary.task_id, lease=lease))
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(canary.task_id, lease))
    await ways.keep(canary)
    await ways.settle(canary.task_id, 0)
    assert (await card(database, "a"))["quarantined_at"] is None


async def test_run_times_are_learned_warm_and_cold_apart(ways: Ways, database: Database) -> None:
    account = await ways.account()
    needs = model(residents=(WEIGHTS,))
    for residents in ((), (Loaded(name="flux/unet", mib=1000),), (Loaded(name="flux/unet", mib=1000),)):
        await ways.report("a", residents=residents)
        asked = request(account, model=needs)
        lease = await run(ways, await ways.admit(asked))
        async with database.single_statement() as tx:
            await generations.advance(tx, Advance(task_id=asked.task_id, phase=Phase.INSPECTING))
        await ways.report("a", settled_fence=lease.fence, residents=residents)
    async with database.read() as reader:
        learned = await leases.run_times(reader)
    assert {each.warm: each.runs for each in learned} == {False: 1, True: 2}
    assert {each.size_class for each in learned} == {14}, "128 x 128 pixels are 2^14"


@pytest.fixture
async def placing(database: Database) -> Any:
    """A placer that runs."""
    stop = Stop()
    task = asyncio.create_task(Placer(database).run(stop))
    yield
    stop.ask()
    await task


@pytest.mark.usefixtures("placing")
async def test_who_waits_is_told_its_place_an_estimate_and_why_not_yet(ways: Ways, database: Database) -> None:
    account = await ways.account()
    await ways.report("a")
    await ways.admit(request(account, model=model(run_s=8.0)))  # takes the card
    first, second = request(account, model=model(run_s=8.0)), request(account, model=model(run_s=8.0))
    for each in (first, second):
        await ways.admit(each)

    async def told() -> bool:
        await ways.report("a")
        return (await ways.record(second)).eta_s is not None

    await eventually(told, what="the placer's word")
    records = [await ways.record(each) for each in (first, second)]
    assert [record.queue_ahead for record in records] == [0, 1]
    etas = [record.eta_s for record in records]
    assert etas[0] is not None
    assert etas[1] is not None
    assert 0 < etas[0] <= 8 < etas[1] <= 16
    assert "1 of 1 cards: busy." in records[0].why_not_yet


@pytest.mark.usefixtures("placing")
async def test_a_card_that_an_admission_took_first_is_no_obstacle(ways: Ways, database: Database) -> None:
    """The fast path tells nobody: the placer's offer fails, it reads what is there, and gives the other card."""
    account = await ways.account()
    waiting = [request(account, model=model()) for _ in range(2)]
    for each in waiting:
        await ways.admit(each)
    for uuid in ("a", "b"):
        await ways.report(uuid)

    async def both() -> bool:
        return len(await leased(database)) == 2

    await eventually(both, what="both to be offered a card")
    assert await ways.breaches() == []


@pytest.mark.usefixtures("placing")
async def test_an_account_at_its_share_waits_while_others_go_on(ways: Ways, database: Database) -> None:
    greedy, modest = await ways.account(), await ways.account()
    async with database.transaction() as tx:
        await fleet.set_share(tx, account_id=greedy, share=Share(in_flight_max=1), reason="a test", actor="test")
    asked = [request(greedy, model=model()) for _ in range(2)] + [request(modest, model=model())]
    for each in asked:
        await ways.admit(each)
    for uuid in ("a", "b", "c"):
        await ways.report(uuid)

    async def placed() -> bool:
        return len(await leased(database)) == 2

    await eventually(placed, what="one of each to be placed")
    by_account = {each.task_id: each.account_id for each in asked}
    assert {by_account[task_id] for task_id, _ in await leased(database)} == {greedy, modest}
