"""When a card may be leased: each rule alone, through admission's fast path and through an offer."""

from datetime import timedelta

import pytest

from infra import fleet, leases
from infra.db import Database, Query
from tests.support.generations import Ways, order, request
from workflows.contracts.hosts import Running
from workflows.domain.placement.fleet import Given

SILENCE = Query("silence", "update card set last_report_at = clock_timestamp() - interval '6 seconds'")


async def is_given(ways: Ways, card_uuid: str = "cpu-a-0") -> bool:
    """Whether both ways to a lease agree that the card is free; leaves it as it was."""
    account = await ways.account()
    queued = request(account)
    answer = await ways.admit(queued)
    if answer.lease is not None:
        await ways.release(queued.task_id)
        return True
    async with ways.database.single_statement() as tx:
        offered = await leases.offer(tx, Given(queued.task_id, (card_uuid,)))
    await ways.release(queued.task_id)
    assert not offered, "admission and placement differ about the card"
    return False


async def test_a_reported_idle_card_is_free(ways: Ways) -> None:
    await ways.report()
    assert await is_given(ways)
    assert await is_given(ways), "a lease whose order was never fetched leaves it clean"


async def test_a_card_whose_host_is_silent_is_not(ways: Ways, database: Database) -> None:
    await ways.report()
    async with database.transaction() as tx:
        await tx.run(SILENCE)
    assert not await is_given(ways)
    await ways.report()
    assert await is_given(ways)


async def test_a_cordoned_card_is_not(ways: Ways, database: Database) -> None:
    await ways.report()
    async with database.transaction() as tx:
        assert await fleet.cordon(tx, "cpu-a-0", cordoned=True, reason="a test", actor="test")
    assert not await is_given(ways)
    await ways.report()
    assert not await is_given(ways), "a report doesn't lift what an operator set"


async def test_a_card_that_runs_something_is_not(ways: Ways) -> None:
    await ways.report(running=Running(task_id="gen_stray", fence=1, fraction=0.1))
    assert not await is_given(ways)


async def test_a_leased_card_is_not(ways: Ways) -> None:
    await ways.report()
    assert (await ways.admit(request(await ways.account()))).lease is not None
    assert not await is_given(ways)


@pytest.mark.parametrize("released", [False, True])
async def test_a_card_whose_order_was_fetched_is_not_until_its_host_says_so(
    ways: Ways, database: Database, released: bool
) -> None:
    await ways.report()
    asked = request(await ways.account())
    answer = await ways.admit(asked)
    assert answer.lease is not None
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(asked.task_id, answer.lease))
    if released:
        await ways.release(asked.task_id)
    else:
        await ways.keep(asked)
        await ways.settle(asked.task_id)
    assert not await is_given(ways)
    await ways.report(settled_fence=answer.lease.fence)
    assert await is_given(ways)


async def test_a_host_can_not_settle_fences_that_were_never_given(ways: Ways, database: Database) -> None:
    await ways.report(settled_fence=1_000)
    asked = request(await ways.account())
    answer = await ways.admit(asked)
    assert answer.lease is not None
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(asked.task_id, answer.lease))
    await ways.release(asked.task_id)
    await ways.report(settled_fence=0)
    assert not await is_given(ways)


async def test_placement_sees_cards_and_tickets_in_order(ways: Ways, database: Database) -> None:
    account = await ways.account()
    tasks = [(await ways.admit(request(account))).task_id for _ in range(3)]
    await ways.report("b")
    await ways.report("a", running=Running(task_id="gen_x", fence=1, fraction=0.5))
    async with database.read() as reader:
        cards, tickets = await leases.snapshot(reader)
    assert [(row.card.uuid, row.card.busy_until is not None) for row in cards] == [("a", True), ("b", False)]
    assert cards[1].card.capabilities == {"image_upscale"}
    assert [ticket.waiting.task_id for ticket in tickets] == tasks
    assert {ticket.waiting.account_id for ticket in tickets} == {account}


async def test_placement_is_woken_when_a_card_becomes_free_and_only_then(ways: Ways, database: Database) -> None:
    async with database.session() as session:
        await session.listen(leases.PLACE_CHANNEL)
        await ways.report(running=Running(task_id="gen_x", fence=1, fraction=0.5))
        assert await session.wait(timedelta(seconds=20)) == {"card:cpu-a-0"}, "it appeared"
        await ways.report(running=Running(task_id="gen_x", fence=1, fraction=0.6))
        assert await session.wait(timedelta(0)) == frozenset()
        await ways.report()
        assert await session.wait(timedelta(seconds=20)) == {"card:cpu-a-0"}
        await ways.report()
        assert await session.wait(timedelta(0)) == frozenset(), "it was free before"
