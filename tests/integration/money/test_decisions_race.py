"""Everybody decides at once about one task, and one end is booked.

The poller says failed, the sweep times out, the user cancels, operators resolve, the host delivers.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from infra import generations
from infra.db import Database, DatabaseBusy, Query, Refused
from tests.integration.money.setting import PRICE, RESOLVE, Setting, Step
from tests.support.generations import Ways
from workflows.contracts.generation import CancelRequest, Closing
from workflows.contracts.states import CreditStatus, Status

ROUNDS = 200
AT_ONCE = 8
"""Connections: as many as decide."""
BOOKED = Query(
    "booked",
    "select array_agg(kind order by id) as kinds,"
    " (select count(*) from outbox where topic = 'generation.closed' and key = %(task)s) as told,"
    " (select count(*) from event where task_id = %(task)s and kind in ('settled', 'released')) as events"
    " from transfer where task_id = %(task)s",
)
Decision = Callable[[Step, Setting], Awaitable[object]]


@pytest.fixture
async def crowd(conninfo: str) -> AsyncIterator[Database]:
    """A pool in which nobody waits for a connection."""
    async with Database(conninfo, application="crowd", pool_max=AT_ONCE) as database:
        yield database


def _release(status: Status, actor: str) -> Decision:
    return lambda do, s: do.ledger.release(s.releasing(status, actor))


def _resolve(amount: int | None) -> Decision:
    return lambda do, s: do.call(RESOLVE, task=s.task, credits=amount, failure=s.failure)


async def _asks_to_cancel(do: Step, setting: Setting) -> object:
    cancel = CancelRequest(reason="changed my mind", actor="user:ada")
    async with setting.database.single_statement() as tx:
        await generations.request_cancel(tx, setting.task, cancel)
    return await do.ledger.release(setting.releasing(Status.CANCELED, "user:ada"))


DECISIONS: tuple[Decision, ...] = (
    _release(Status.FAILED, "workflow:poller"),
    _release(Status.EXPIRED, "sweep"),
    _asks_to_cancel,
    _resolve(PRICE - 1),
    _resolve(None),
    lambda do, s: do.ledger.settle(s.settling()),
    lambda do, s: do.ledger.mark_unknown(s.unknown()),
    lambda do, s: do.ledger.settle(s.settling()),
)


async def _decide(decision: Decision, setting: Setting) -> object:
    """As a local activity does: what was busy is tried again; a refusal is an answer."""
    while True:
        try:
            return await decision(Step(setting.database), setting)
        except Exception as error:  # what it is, its cause says; whatever isn't known is raised again
            cause = error.__cause__
            if isinstance(cause, DatabaseBusy):
                continue
            if isinstance(cause, Refused):
                return cause
            raise


@pytest.mark.slow
async def test_everybody_decides_at_once_and_one_end_is_booked(crowd: Database, conninfo: str) -> None:
    ends: Counter[tuple[Status, CreditStatus]] = Counter()
    chance = random.Random(0)
    for number in range(1, ROUNDS + 1):
        setting = Setting(number, crowd, conninfo)
        await setting.doubt()
        order = chance.sample(DECISIONS, len(DECISIONS))
        answers = await asyncio.gather(*(_decide(decision, setting) for decision in order))
        heard = {(answer.status, answer.credit_status) for answer in answers if isinstance(answer, Closing)}
        assert len(heard) == 1, heard
        record = await Ways(crowd).record(setting.asked)
        assert (record.status, record.credit_status) in heard
        ends.update(heard)
        async with crowd.read() as reader:
            booked = await reader.one(BOOKED, task=setting.task)
        assert booked is not None
        resolution = "post" if record.credit_status is CreditStatus.SETTLED else "void"
        assert (booked["kinds"], booked["told"], booked["events"]) == (["pending", resolution], 1, 1)
        available, held, _ = await Ways(crowd).balance(setting.account)
        assert (available, held) == (25 - record.charged_credits, 0)
    assert await Ways(crowd).breaches() == []
    assert len(ends) >= 3, f"the race has different winners: {ends}"
