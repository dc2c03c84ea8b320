"""A result found after a release: delivered once, free, and never where the outcome was known."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra import generations
from infra.db import Database, Query
from infra.db.errors import IllegalTransition
from tests.support.generations import Ways, request
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import GenerationRequest, MarkUnknown, Release
from workflows.contracts.states import CreditStatus, Status

LATE = Query("late", "select deliver_late_v1(%(task_id)s, 'workflow:test') as answer")
TOLD = Query("told", "select topic, payload from outbox where key = %(task_id)s order by id")
EVENTS = Query("events", "select kind from event where task_id = %(task_id)s order by id")


async def released(
    ways: Ways, actor: str, status: Status = Status.FAILED, *, doubted: bool = True
) -> GenerationRequest:
    """A generation that was given back, without an outcome where `doubted`."""
    asked = request(await ways.account(100))
    await ways.admit(asked)
    now = datetime.now(UTC)
    async with ways.database.transaction() as tx:
        if doubted:
            await generations.mark_unknown(
                tx,
                MarkUnknown(
                    task_id=asked.task_id,
                    since=now,
                    reason="silence",
                    awaiting="the host",
                    next_look_at=now,
                    resolve_by=now + timedelta(hours=1),
                ),
            )
        await generations.release(
            tx,
            Release(
                task_id=asked.task_id,
                status=status,
                failure=Failure(code=Code.OUTCOME_UNKNOWN, message="Nobody knows."),
                lease_id=None,
                actor=actor,
            ),
        )
    return asked


async def deliver(database: Database, task_id: str) -> Any:
    """Deliver late, as its activity does."""
    async with database.single_statement() as tx:
        return await tx.value(LATE, task_id=task_id)


async def test_it_is_free_told_once_and_the_house_keeps_its_loss(ways: Ways, database: Database) -> None:
    asked = await released(ways, "manifest:release_unknown")
    assert await ways.balance("loss") == (-10, 0, 0)
    assert await ways.balance("revenue") == (10, 0, 0)
    await ways.keep(asked)
    answers = await asyncio.gather(*(deliver(database, asked.task_id) for _ in range(8)))
    assert all(answer == answers[0] for answer in answers)
    record = await ways.record(asked)
    assert (record.status, record.credit_status, record.charged_credits) == (
        Status.COMPLETED,
        CreditStatus.RELEASED,
        0,
    )
    assert record.failure is None
    async with database.read() as reader:
        told = await reader.all(TOLD, task_id=asked.task_id)
        events = [row["kind"] for row in await reader.all(EVENTS, task_id=asked.task_id)]
    assert [row["topic"] for row in told] == ["generation.closed", "generation.delivered_late"]
    assert told[1]["payload"]["charged"] == 0
    assert events.count("delivered_late") == 1
    assert await ways.balance(asked.account_id) == (100, 0, 0)
    assert await ways.balance("loss") == (-10, 0, 0)
    assert await ways.breaches() == []


async def test_a_loss_is_only_what_a_manifest_released(ways: Ways) -> None:
    await released(ways, "operator:test")
    await released(ways, "workflow:test", doubted=False)
    assert await ways.balance("loss") == (0, 0, 0)


@pytest.mark.parametrize(
    ("status", "doubted", "kept"),
    [
        pytest.param(Status.FAILED, False, True, id="it failed, and that was known"),
        pytest.param(Status.CANCELED, True, True, id="its caller gave it up"),
        pytest.param(Status.FAILED, True, False, id="nothing was kept"),
    ],
)
async def test_nothing_else_is_delivered_late(
    ways: Ways, database: Database, status: Status, doubted: bool, kept: bool
) -> None:
    asked = await released(ways, "workflow:test", status, doubted=doubted)
    if kept:
        await ways.keep(asked)
    with pytest.raises(IllegalTransition):
        await deliver(database, asked.task_id)
    assert (await ways.record(asked)).status is status
    assert await ways.breaches() == []


async def test_what_is_open_is_not_delivered_late(ways: Ways, database: Database) -> None:
    asked = request(await ways.account(100))
    await ways.admit(asked)
    await ways.keep(asked)
    with pytest.raises(IllegalTransition):
        await deliver(database, asked.task_id)
