"""A cancel that meets another step in the middle: the step's transaction is open while the cancel begins."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from infra import generations, leases
from infra.db import Database, Query, Tx
from tests.support.eventually import eventually
from tests.support.generations import Ways, order, request
from workflows.contracts.generation import AcceptLease, Advance, GenerationRequest, LeaseGrant, Requeue
from workflows.contracts.states import CreditStatus, Phase
from workflows.domain.placement.fleet import Given

Step = Callable[[Tx, GenerationRequest, LeaseGrant], Awaitable[object]]

LAPSE_NOW = Query("lapse_now", "update lease set lapses_at = clock_timestamp() where state = 'offered'")
LATEST = Query(
    "latest",
    "select l.id::text as lease_id, l.card_uuid, c.label as card_label, l.fence"
    " from lease l join card c on c.uuid = l.card_uuid order by l.fence desc limit 1",
)
BLOCKED = Query(
    "blocked",
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
)


async def lapse(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    assert await leases.lapse(tx) == 1


async def accept(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    assert await leases.accept(tx, AcceptLease(task_id=asked.task_id, lease=lease))


async def requeue(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    assert await leases.requeue(tx, Requeue(task_id=asked.task_id, lease=lease))


async def fetch(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    assert await leases.open_order(tx, order(asked.task_id, lease)) == asked


async def inspect(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    await generations.advance(tx, Advance(task_id=asked.task_id, phase=Phase.INSPECTING))


async def offer(tx: Tx, asked: GenerationRequest, lease: LeaseGrant) -> None:
    assert await leases.offer(tx, Given(asked.task_id, (lease.card_uuid,)))


@pytest.mark.parametrize("step", [lapse, accept, requeue, fetch, inspect, offer])
async def test_the_cancel_waits_and_leaves_nothing_behind(ways: Ways, database: Database, step: Step) -> None:
    asked = request(await ways.account())
    await ways.admit(asked)
    await ways.report()
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(asked.task_id, ("cpu-a-0",)))
    async with database.read() as reader:
        lease = LeaseGrant.model_validate(await reader.one(LATEST))
    if step is lapse:
        async with database.transaction() as tx:
            await tx.run(LAPSE_NOW)
    elif step is not accept:
        async with database.single_statement() as tx:
            await accept(tx, asked, lease)
    if step is offer:  # a second one, after the first lease was given back
        async with database.single_statement() as tx:
            await requeue(tx, asked, lease)

    async def is_blocked() -> bool:
        async with database.read() as reader:
            return bool(await reader.value(BLOCKED))

    async with database.transaction() as tx:
        await step(tx, asked, lease)
        cancel = asyncio.create_task(ways.release(asked.task_id))
        await eventually(is_blocked, what="the cancel's wait for the step")
    assert (await cancel).credit_status is CreditStatus.RELEASED
    assert await ways.breaches() == []
    async with database.read() as reader:
        cards, tickets = await leases.snapshot(reader)
    assert tickets == ()
    assert (cards[0].card.busy_until is not None) is (step is fetch), "only a fetched order leaves the card dirty"
