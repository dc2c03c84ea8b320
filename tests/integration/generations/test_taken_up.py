"""What a repeated admission answers of a generation that is under way: the lease from which it goes on."""

from datetime import UTC, datetime, timedelta

import pytest

from infra import generations, leases, outbox
from infra.db import Database
from tests.support.generations import Ways, order, request
from workflows.contracts.generation import (
    AcceptLease,
    Advance,
    GenerationRequest,
    LeaseGrant,
    MarkUnknown,
    Requeue,
)
from workflows.contracts.states import CreditStatus, Phase
from workflows.domain.placement.fleet import Given


@pytest.fixture
async def waiting(ways: Ways) -> GenerationRequest:
    """Admitted before any card was there."""
    made = request(await ways.account())
    assert (await ways.admit(made)).lease is None
    await ways.report()
    return made


async def offered(database: Database, waiting: GenerationRequest) -> LeaseGrant:
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(waiting.task_id, ("cpu-a-0",)))
    async with database.transaction() as tx:
        (row,) = await outbox.take(tx, 10)
    return AcceptLease.model_validate(row.payload).lease


async def accepted(database: Database, waiting: GenerationRequest) -> LeaseGrant:
    lease = await offered(database, waiting)
    async with database.single_statement() as tx:
        assert await leases.accept(tx, AcceptLease(task_id=waiting.task_id, lease=lease))
    return lease


async def park(database: Database, task_id: str) -> None:
    now = datetime.now(UTC)
    async with database.single_statement() as tx:
        await generations.mark_unknown(
            tx,
            MarkUnknown(
                task_id=task_id,
                since=now,
                reason="silence",
                awaiting="the host",
                next_look_at=now,
                resolve_by=now + timedelta(hours=1),
            ),
        )


async def requeue(database: Database, task_id: str, lease: LeaseGrant) -> bool:
    async with database.single_statement() as tx:
        return await leases.requeue(tx, Requeue(task_id=task_id, lease=lease, never_ran=True))


async def test_one_that_waits_has_no_lease(ways: Ways, waiting: GenerationRequest) -> None:
    assert (await ways.admit(waiting)).lease is None


async def test_an_offer_is_no_lease_yet(ways: Ways, database: Database, waiting: GenerationRequest) -> None:
    await offered(database, waiting)
    assert (await ways.admit(waiting)).lease is None


async def test_a_lease_that_stands_is_answered_as_accepted(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await accepted(database, waiting)
    assert (await ways.admit(waiting)).lease == lease.model_copy(update={"accepted": True})


async def test_a_parked_lease_is_answered_as_such(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await accepted(database, waiting)
    await park(database, waiting.task_id)
    answer = await ways.admit(waiting)
    assert answer.credit_status is CreditStatus.UNKNOWN
    assert answer.lease == lease.model_copy(update={"accepted": False})


async def test_the_lease_of_a_run_that_is_over_is_answered_as_such(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await accepted(database, waiting)
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(waiting.task_id, lease))
    async with database.single_statement() as tx:
        await generations.advance(tx, Advance(task_id=waiting.task_id, phase=Phase.INSPECTING))
    assert (await ways.admit(waiting)).lease == lease.model_copy(update={"accepted": False})


async def test_proof_about_a_parked_lease_queues_again_once(
    ways: Ways, database: Database, waiting: GenerationRequest
) -> None:
    lease = await accepted(database, waiting)
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(waiting.task_id, lease))
    await park(database, waiting.task_id)
    await ways.report(settled_fence=lease.fence)
    assert await requeue(database, waiting.task_id, lease)
    record = await ways.record(waiting)
    assert (record.phase, record.queue_ahead) == (Phase.WAITING, 0)
    assert (await ways.admit(waiting)).lease is None
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(waiting.task_id, ("cpu-a-0",)))
    assert await requeue(database, waiting.task_id, lease), "a repetition is answered as the first"
    assert (await ways.record(waiting)).queue_ahead is None, "a repetition queued it beside its offer"
    assert await ways.breaches() == []
