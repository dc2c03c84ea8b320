"""Faults that took or gave wrong credits elsewhere, at the ledger: those that no other test states."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from infra.db import Database, Query
from infra.db.errors import HoldExceeded
from tests.integration.money.setting import CREDITS, DELIVER_LATE, LIMIT, PRICE, RESOLVE, Setting, Step
from tests.support.generations import Ways, request
from workflows.contracts.failures import Code
from workflows.contracts.states import AdmissionOutcome, Status

TOLD = Query(
    "told",
    "select array_agg(topic order by id) as messages,"
    " (select array_agg(kind order by id) from event"
    "  where task_id = %(task)s and kind in ('settled', 'released', 'delivered_late')) as events"
    " from outbox where key = %(task)s and topic <> 'signal.assigned'",
)
CYCLES = 60
PER_MINUTE = 5


@pytest.fixture
def setting(database: Database, conninfo: str) -> Setting:
    """One account, one generation."""
    return Setting(1, database, conninfo)


async def test_a_refund_gives_back_what_was_taken_and_makes_nothing(ways: Ways) -> None:
    """100 credits, 22 held, failed: elsewhere the total grew by what was returned."""
    account = await ways.account(100)
    asked = request(account, price=22)
    await ways.admit(asked)
    assert await ways.balance(account) == (78, 22, 0)
    await ways.release(asked.task_id)
    assert await ways.balance(account) == (100, 0, 0)
    assert await ways.breaches() == []


async def test_a_run_that_cost_more_than_its_price_never_takes_more_than_its_hold(ways: Ways) -> None:
    """Price 10, real cost 14, balance 10: elsewhere the balance fell below nothing."""
    account = await ways.account(10)
    asked = request(account, price=10)
    await ways.admit(asked)
    with pytest.raises(HoldExceeded):
        await ways.settle(asked.task_id, 14)
    assert await ways.balance(account) == (0, 10, 0)
    await ways.keep(asked)
    await ways.settle(asked.task_id, 10)
    assert await ways.balance(account) == (0, 0, 10)
    assert await ways.breaches() == []


async def test_a_cancel_of_one_that_waits_touches_no_other(ways: Ways) -> None:
    """A runs, B waits, B is canceled: elsewhere A ended as completed."""
    await ways.report()
    account = await ways.account(100)
    running, waiting = request(account), request(account)
    assert (await ways.admit(running)).lease is not None
    assert (await ways.admit(waiting)).lease is None
    await ways.release(waiting.task_id, Status.CANCELED)
    record = await ways.record(running)
    assert (record.status, record.card_label) == (Status.PENDING, "CPU-A-0")
    assert await ways.balance(account) == (90, 10, 0)
    await ways.keep(running)
    await ways.settle(running.task_id, 10)
    assert await ways.balance(account) == (90, 0, 10)
    assert await ways.breaches() == []


@pytest.mark.parametrize("end", [Status.CANCELED, Status.FAILED], ids=["cancels each", "fails each"])
async def test_who_begins_and_gets_it_back_for_ever_is_limited(setting: Setting, end: Status) -> None:
    """Elsewhere loops of submit and cancel, or of jobs built to fail late, used the cards for nothing."""
    await setting.begin(card=False)
    await setting.before.call(LIMIT, **setting.limiting(per_minute=PER_MINUTE))
    answers: Counter[Code | None] = Counter()
    for number in range(CYCLES):
        asked = request(setting.account, f"loop-{number}", price=PRICE)
        answer = await setting.ways.admit(asked)
        answers[answer.refusal.code if answer.refusal else None] += 1
        if answer.outcome is AdmissionOutcome.HELD:
            await setting.ways.release(asked.task_id, end)
    assert answers == {None: PER_MINUTE, Code.RATE_LIMITED: CYCLES - PER_MINUTE}
    assert await setting.ways.balance(setting.account) == (CREDITS, 0, 0)
    assert (await setting.ways.admit(request(await setting.ways.account()))).refusal is None, "others go on"
    assert await setting.ways.breaches() == []


def _resolve(amount: int | None) -> Callable[[Step, Setting], Awaitable[object]]:
    return lambda do, s: do.call(RESOLVE, task=s.task, credits=amount, failure=s.failure)


@pytest.mark.parametrize(
    ("before", "end", "told"),
    [
        (Setting.run, lambda do, s: do.ledger.settle(s.settling()), ["settled"]),
        (Setting.run, lambda do, s: do.ledger.release(s.releasing(Status.FAILED)), ["released"]),
        (Setting.run, lambda do, s: do.ledger.release(s.releasing(Status.CANCELED)), ["released"]),
        (Setting.hold, lambda do, s: do.ledger.release(s.releasing(Status.EXPIRED)), ["released"]),
        (Setting.doubt, _resolve(PRICE), ["settled"]),
        (Setting.doubt, _resolve(None), ["released"]),
        (Setting.lost, lambda do, s: do.call(DELIVER_LATE, task=s.task), ["released", "delivered_late"]),
    ],
    ids=["completed", "failed", "canceled", "expired", "unknown, paid", "unknown, released", "found late"],
)
async def test_every_end_is_told_exactly_once(
    setting: Setting,
    before: Callable[[Setting], Awaitable[None]],
    end: Callable[[Step, Setting], Awaitable[object]],
    told: list[str],
) -> None:
    """Elsewhere a failed run was told to nobody."""
    await before(setting)
    for _ in range(3):
        await end(setting.before, setting)
    async with setting.database.read() as reader:
        row = await reader.one(TOLD, task=setting.task)
    assert row is not None
    topics = {"settled": "generation.closed", "released": "generation.closed"}
    assert row["events"] == told
    assert row["messages"] == [topics.get(kind, f"generation.{kind}") for kind in told]
    assert await setting.ways.breaches() == []
