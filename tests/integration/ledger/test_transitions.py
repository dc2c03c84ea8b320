"""Which steps a generation's credits can take at all: the database's owner, by hand, finds no other."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product

import psycopg
import pytest

from infra import generations
from infra.db import Query
from tests.support.generations import Ways, request
from workflows.contracts.generation import MarkUnknown
from workflows.contracts.states import CreditStatus, Phase, Status

LATE = Query("late", "select deliver_late_v1(%(task_id)s, 'workflow:test')")
STATES = ("held", "unknown", "settled", "released", "released unknown", "late")
CHANGE = (
    "update generation set status = %s, credit_status = %s, phase = %s, charged_credits = %s,"
    " finished_at = case when %s = 'pending' then null else coalesce(finished_at, clock_timestamp()) end,"
    " late_at = case when %s then clock_timestamp() end,"
    " failure = case when %s then null else failure end,"
    " unknown_since = coalesce(unknown_since, now()), unknown_reason = coalesce(unknown_reason, 'by hand'),"
    " resolve_by = coalesce(resolve_by, now())"
)
HARMLESS = {
    # What is open may become unknown; that moves nothing. And nothing at all is no step.
    ("held", (Status.PENDING, CreditStatus.HELD)),
    ("held", (Status.PENDING, CreditStatus.UNKNOWN)),
    ("unknown", (Status.PENDING, CreditStatus.UNKNOWN)),
}

Connection = psycopg.AsyncConnection[tuple[object, ...]]


@pytest.fixture
async def hand(conninfo: str) -> AsyncIterator[Connection]:
    """The owner of the tables, with nothing of ours between."""
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = holdfast")
        yield connection


async def brought_to(ways: Ways, state: str) -> None:
    """One generation that stands so."""
    asked = request(await ways.account(100))
    await ways.admit(asked)
    if state in ("unknown", "released unknown", "late"):
        now = datetime.now(UTC)
        async with ways.database.single_statement() as tx:
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
    if state in ("settled", "late", "released unknown"):
        await ways.keep(asked)
    if state == "settled":
        await ways.settle(asked.task_id, 8)
    elif state not in ("held", "unknown"):
        await ways.release(asked.task_id)
    if state == "late":
        async with ways.database.single_statement() as tx:
            await tx.value(LATE, task_id=asked.task_id)


@pytest.mark.parametrize("state", STATES)
async def test_no_other_step_is_possible(ways: Ways, hand: Connection, state: str) -> None:
    """Each combination of status, credits, phase, charge and late delivery that a hand could write."""
    await brought_to(ways, state)
    tried = 0
    for status, credit_status, phase, charged, late in product(
        Status, CreditStatus, (Phase.WAITING, Phase.FINISHED), (0, 8, 10), (False, True)
    ):
        if (state, (status, credit_status)) in HARMLESS and not charged and not late and phase is Phase.WAITING:
            continue
        with pytest.raises(psycopg.Error) as refused:
            await hand.execute(CHANGE, (status, credit_status, phase, charged, status, late, late))
        assert refused.value.sqlstate in ("HF004", "23514"), (status, credit_status, phase, charged, late)
        tried += 1
    assert tried > 200
    assert await ways.breaches() == []


@pytest.mark.parametrize("word", ["none", "x", "Held", ""])
async def test_there_are_no_other_words(ways: Ways, hand: Connection, word: str) -> None:
    await brought_to(ways, "held")
    for column in ("status", "credit_status", "phase"):
        with pytest.raises(psycopg.Error) as refused:
            await hand.execute(f"update generation set {column} = %s".encode(), (word,))
        assert refused.value.sqlstate == "23514"


@pytest.mark.parametrize(
    "born",
    [
        "status = 'completed', credit_status = 'settled', phase = 'finished', finished_at = now()",
        "status = 'failed', credit_status = 'released', phase = 'finished', finished_at = now()",
        "credit_status = 'unknown', unknown_since = now(), unknown_reason = 'x', resolve_by = now()",
        "charged_credits = 1",
        "price_credits = -1",
        "late_at = now()",
    ],
)
async def test_a_generation_begins_held(ways: Ways, hand: Connection, born: str) -> None:
    """Also with a hold of its own."""
    await brought_to(ways, "held")
    columns = dict(part.split(" = ") for part in born.split(", "))
    taken = {
        "task_id": "'gen_born'",
        "account_id": "account_id",
        "operation_id": "'born'",
        "model_id": "model_id",
        "mode": "mode",
        "request": "request",
        "price_credits": "1",
        "balance_held": "0",
        "created_at": "now()",
        "expires_at": "now()",
        **columns,
    }
    insert = f"insert into generation ({', '.join(taken)}) select {', '.join(taken.values())} from generation"

    async def bear() -> None:
        async with hand.transaction():
            await hand.execute(insert.encode())
            await hand.execute(
                "insert into transfer (kind, cause, debit_account, credit_account, amount, task_id, reason, actor)"
                " select 'pending', null, account_id, 'revenue', greatest(price_credits, 0), task_id, 'r', 'a'"
                " from generation where task_id = 'gen_born'"
            )

    with pytest.raises(psycopg.Error) as refused:
        await bear()
    assert refused.value.sqlstate == "HF004"
    assert await ways.breaches() == []
