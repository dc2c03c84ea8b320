"""Leases from offer to end: only the newest fence may start, only it may deliver."""

import asyncio
from datetime import timedelta

import pytest

from infra import fleet, generations, leases, outbox
from infra.db import Database, Query
from tests.support.generations import Ways, order, request
from workflows.contracts.generation import (
    AcceptLease,
    Advance,
    GenerationRequest,
    LeaseGrant,
    MarkUnknown,
    Requeue,
)
from workflows.contracts.hosts import Running, StaleLease
from workflows.contracts.states import CreditStatus, Phase
from workflows.domain.placement.fleet import Given

LAPSE_NOW = Query("lapse_now", "update lease set lapses_at = clock_timestamp() where state = 'offered'")

OPEN_MESSAGES = Query("open_messages", "select count(*) from outbox where done_at is null")
FAILED_FOR_DAYS = Query("failed_for_days", "update outbox set tries = 5000")

OFFER = Query(
    "offer_that_lapses_at_once",
    "select offer_v1(%(task_id)s, %(card_uuid)s, interval '5 seconds', interval '0 seconds')",
)


@pytest.fixture
async def waiting(ways: Ways) -> GenerationRequest:
    """A generation that waits, and a card that came after it."""
    made = request(await ways.account())
    await ways.admit(made)
    await ways.report()
    return made


async def offered(database: Database, task_id: str, card_uuid: str = "cpu-a-0") -> LeaseGrant | None:
    """Offer and read the grant from the outbox, as the relay does."""
    async with database.transaction() as tx:
        if not await leases.offer(tx, Given(task_id, (card_uuid,))):
            return None
        *_, row = [r for r in await outbox.take(tx, 100) if r.topic is outbox.Topic.ASSIGNED]
        await outbox.mark_done(tx, row.id)
    message = AcceptLease.model_validate(row.payload)
    assert message.task_id == task_id
    return message.lease


async def granted(database: Database, task_id: str) -> LeaseGrant:
    lease = await offered(database, task_id)
    assert lease is not None
    assert await accept(database, task_id, lease)
    return lease


async def accept(database: Database, task_id: str, lease: LeaseGrant) -> bool:
    async with database.single_statement() as tx:
        return await leases.accept(tx, AcceptLease(task_id=task_id, lease=lease))


async def requeue(database: Database, task_id: str, lease: LeaseGrant, *, never_ran: bool = False) -> bool:
    async with database.single_statement() as tx:
        return await leases.requeue(tx, Requeue(task_id=task_id, lease=lease, never_ran=never_ran))


async def fetch(
    database: Database, task_id: str, lease: LeaseGrant, *, boot_id: str = "boot-1", attach_only: bool = False
) -> GenerationRequest | StaleLease:
    async with database.single_statement() as tx:
        return await leases.open_order(tx, order(task_id, lease, boot_id=boot_id, attach_only=attach_only))


async def stale(database: Database, task_id: str, lease: LeaseGrant) -> StaleLease | None:
    async with database.read() as reader:
        return await leases.check_fence(reader, task_id=task_id, lease_id=lease.lease_id, fence=lease.fence)


async def park(database: Database, asked: GenerationRequest) -> None:
    now = asked.created_at
    async with database.single_statement() as tx:
        await generations.mark_unknown(
            tx,
            MarkUnknown(
                task_id=asked.task_id,
                since=now,
                reason="silence",
                awaiting="journal",
                next_look_at=now,
                resolve_by=now + timedelta(hours=24),
            ),
        )


async def test_offer_accept_fetch_run(ways: Ways, database: Database, waiting: GenerationRequest) -> None:
    lease = await offered(database, waiting.task_id)
    assert lease is not None
    assert (lease.card_label, lease.fence, lease.accepted) == ("CPU-A-0", 1, False)
    assert (await ways.record(waiting)).phase is Phase.WAITING, "an offer is no placement"
    assert isinstance(await fetch(database, waiting.task_id, lease), StaleLease), "not accepted yet"
    assert await accept(database, waiting.task_id, lease)
    assert await accept(database, waiting.task_id, lease), "the same answer when repeated"
    assert (await ways.record(waiting)).phase is Phase.PLACED
    assert await fetch(database, waiting.task_id, lease) == waiting
    assert await fetch(database, waiting.task_id, lease) == waiting, "a retried activity fetches again"
    await ways.report(running=Running(task_id=waiting.task_id, fence=1, fraction=0.4))
    record = await ways.record(waiting)
    assert (record.phase, record.fraction, record.card_label) == (Phase.RUNNING, 0.4, "CPU-A-0")
    assert await stale(database, waiting.task_id, lease) is None
    assert await ways.breaches() == []


async def test_a_stale_fence_neither_starts_nor_delivers(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    old = await granted(database, waiting.task_id)
    assert await requeue(database, waiting.task_id, old)
    for attach_only in (False, True):
        assert isinstance(await fetch(database, waiting.task_id, old, attach_only=attach_only), StaleLease)
    assert await stale(database, waiting.task_id, old) is not None
    new = await granted(database, waiting.task_id)
    assert new.fence == old.fence + 1
    for attach_only in (False, True):
        assert isinstance(await fetch(database, waiting.task_id, old, attach_only=attach_only), StaleLease)
    assert await stale(database, waiting.task_id, old) is not None
    forged = old.model_copy(update={"fence": new.fence})
    assert isinstance(await fetch(database, waiting.task_id, forged), StaleLease)
    assert await stale(database, waiting.task_id, forged) is not None
    assert await fetch(database, waiting.task_id, new) == waiting
    assert await stale(database, waiting.task_id, new) is None
    assert await ways.breaches() == []


async def test_after_the_end_nothing_starts_and_nothing_is_delivered(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await granted(database, waiting.task_id)
    await ways.release(waiting.task_id)
    for attach_only in (False, True):
        assert isinstance(await fetch(database, waiting.task_id, lease, attach_only=attach_only), StaleLease)
    assert await stale(database, waiting.task_id, lease) is not None
    assert await stale(database, "gen_none", lease) is not None
    assert not await accept(database, waiting.task_id, lease)
    assert not await requeue(database, waiting.task_id, lease)


async def test_an_older_agent_of_the_card_is_a_stray(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await granted(database, waiting.task_id)
    await ways.report(boot_id="boot-2")
    for attach_only in (False, True):
        answer = await fetch(database, waiting.task_id, lease, boot_id="boot-1", attach_only=attach_only)
        assert isinstance(answer, StaleLease)
        assert answer.stray, "its journal proves nothing"
    await ways.report(boot_id="boot-1", running=Running(task_id="gen_stray", fence=1, fraction=0.9))
    assert isinstance(await fetch(database, waiting.task_id, lease, boot_id="boot-1"), StaleLease)
    assert await fetch(database, waiting.task_id, lease, boot_id="boot-2") == waiting
    assert (await ways.record(waiting)).fraction is None, "what the stray says is not heard"


async def test_a_parked_lease_may_be_asked_and_may_deliver(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await granted(database, waiting.task_id)
    await fetch(database, waiting.task_id, lease)
    await park(database, waiting)
    assert isinstance(await fetch(database, waiting.task_id, lease), StaleLease), "but not started again"
    assert await fetch(database, waiting.task_id, lease, attach_only=True) == waiting
    assert await stale(database, waiting.task_id, lease) is None
    other = request(waiting.account_id)
    assert (await ways.admit(other)).lease is None, "the card may be dirty"
    await ways.report(settled_fence=lease.fence)
    newer = await granted(database, other.task_id)
    assert newer.fence == lease.fence + 1
    assert await stale(database, waiting.task_id, lease) is None, "the late result is still this generation's"
    assert await ways.breaches() == []


async def test_an_offer_that_nobody_accepts_lapses(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    behind = request(waiting.account_id)
    await ways.admit(behind)
    lease = await offered(database, waiting.task_id)
    assert lease is not None
    async with database.single_statement() as tx:
        assert await leases.lapse(tx) == 0, "not yet"
    async with database.transaction() as tx:
        await tx.run(LAPSE_NOW)
    assert not await accept(database, waiting.task_id, lease), "late is late, also before anybody looked"
    async with database.single_statement() as tx:
        assert await leases.lapse(tx) == 1
    async with database.single_statement() as tx:
        assert await leases.lapse(tx) == 0
    assert (await ways.record(waiting)).queue_ahead == 0, "back at its old place"
    assert (await ways.record(behind)).queue_ahead == 1
    assert not await accept(database, waiting.task_id, lease)
    assert await ways.breaches() == []


async def test_who_lets_offer_after_offer_lapse_goes_behind_the_others(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    """Its workflow may be stuck for good, and would be offered the card for ever."""
    behind = request(waiting.account_id)
    await ways.admit(behind)
    for ahead in (0, 0, 1):
        assert await offered(database, waiting.task_id) is not None
        async with database.transaction() as tx:
            await tx.run(LAPSE_NOW)
        async with database.single_statement() as tx:
            assert await leases.lapse(tx) == 1
        assert (await ways.record(waiting)).queue_ahead == ahead
    assert (await ways.record(behind)).queue_ahead == 0
    assert await ways.breaches() == []


async def test_an_offer_that_ended_is_no_longer_delivered(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(waiting.task_id, ("cpu-a-0",)))
    async with database.transaction() as tx:
        (row,) = await outbox.take(tx, 10)
        await outbox.mark_failed(tx, row.id, "nobody there")
        await tx.run(LAPSE_NOW)
    async with database.single_statement() as tx:
        await leases.lapse(tx)
    async with database.transaction() as tx:
        assert await outbox.take(tx, 10) == ()
        assert await tx.value(OPEN_MESSAGES) == 0, "nor kept until its next try is due"


async def test_a_message_may_fail_for_days(ways: Ways, database: Database, waiting: GenerationRequest) -> None:
    async with database.transaction() as tx:
        assert await leases.offer(tx, Given(waiting.task_id, ("cpu-a-0",)))
        (row,) = await outbox.take(tx, 10)
        await tx.run(FAILED_FOR_DAYS)
        await outbox.mark_failed(tx, row.id, "nobody there")


async def test_a_requeue_needs_proof_once_the_order_was_fetched(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await granted(database, waiting.task_id)
    await fetch(database, waiting.task_id, lease)
    assert not await requeue(database, waiting.task_id, lease)
    assert (await ways.record(waiting)).phase is Phase.RUNNING
    assert await requeue(database, waiting.task_id, lease, never_ran=True)
    assert await requeue(database, waiting.task_id, lease, never_ran=True), "the same answer when repeated"
    record = await ways.record(waiting)
    assert (record.phase, record.queue_ahead) == (Phase.WAITING, 0)
    async with database.read() as reader:
        _, (ticket,) = await leases.snapshot(reader)
    assert ticket.waiting.came_back_from == {"cpu-a-0"}
    assert await offered(database, waiting.task_id) is None, "its host has not said that the card is clean"
    await ways.report(settled_fence=lease.fence)
    assert await offered(database, waiting.task_id) is not None
    assert await ways.breaches() == []


async def test_only_one_of_many_placers_gives_a_card_away(ways: Ways, database: Database) -> None:
    account = await ways.account()
    tasks = [(await ways.admit(request(account))).task_id for _ in range(8)]
    await ways.report()

    async def offer(task_id: str) -> bool:
        async with database.single_statement() as tx:
            return await leases.offer(tx, Given(task_id, ("cpu-a-0",)))

    won = await asyncio.gather(*(offer(task_id) for task_id in tasks))
    assert sum(won) == 1
    assert await ways.breaches() == []


async def test_a_cancel_and_an_offer_race_to_one_outcome(ways: Ways, database: Database) -> None:
    account = await ways.account(1000)
    await asyncio.gather(*(ways.report(f"card-{number}") for number in range(20)))
    async with database.transaction() as tx:
        for number in range(20):
            await fleet.cordon(tx, f"card-{number}", cordoned=True, reason="a test", actor="test")
    tasks = [(await ways.admit(request(account))).task_id for _ in range(20)]
    async with database.transaction() as tx:
        for number in range(20):
            await fleet.cordon(tx, f"card-{number}", cordoned=False, reason="a test", actor="test")

    async def offer(number: int) -> None:
        async with database.single_statement() as tx:
            await tx.value(OFFER, task_id=tasks[number], card_uuid=f"card-{number}")

    async def lapse() -> None:
        async with database.single_statement() as tx:
            await leases.lapse(tx)

    await asyncio.gather(*(step for n in range(20) for step in (offer(n), ways.release(tasks[n]), lapse())))
    assert await ways.balance(account) == (1000, 0, 0)
    assert await ways.breaches() == []


async def test_withdrawing_twice_is_once(ways: Ways, database: Database, waiting: GenerationRequest) -> None:
    async with database.transaction() as tx:
        await leases.withdraw(tx, waiting.task_id)
        await leases.withdraw(tx, waiting.task_id)
        await leases.withdraw(tx, "gen_none")
    await ways.release(waiting.task_id)
    assert await ways.breaches() == []


async def test_inspecting_ends_the_lease_and_the_right_to_deliver(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await granted(database, waiting.task_id)
    await fetch(database, waiting.task_id, lease)
    async with database.single_statement() as tx:
        await generations.advance(tx, Advance(task_id=waiting.task_id, phase=Phase.INSPECTING))
    assert await stale(database, waiting.task_id, lease) is not None
    async with database.read() as reader:
        (card,), _ = await leases.snapshot(reader)
    assert card.card.busy_until is not None, "dirty until its host says otherwise"
    await ways.report(settled_fence=lease.fence)
    async with database.read() as reader:
        (card,), _ = await leases.snapshot(reader)
    assert card.card.busy_until is None


async def test_a_run_that_was_over_may_come_into_doubt_in_plain_sight(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    """As when its workflow was terminated before the result was kept: its host is asked, and may deliver again."""
    lease = await granted(database, waiting.task_id)
    await fetch(database, waiting.task_id, lease)
    for phase in (Phase.INSPECTING, Phase.KEEPING):
        async with database.single_statement() as tx:
            await generations.advance(tx, Advance(task_id=waiting.task_id, phase=phase))
    await park(database, waiting)
    record = await ways.record(waiting)
    assert (record.phase, record.credit_status) == (Phase.RECONCILING, CreditStatus.UNKNOWN)
    assert record.resolve_by is not None
    assert await fetch(database, waiting.task_id, lease, attach_only=True) == waiting
    assert await stale(database, waiting.task_id, lease) is None
    assert await ways.breaches() == []
