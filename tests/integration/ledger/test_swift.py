"""What the swift form of the steps has to keep of the slow one."""

import json
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql

from tests.support.generations import Ways, request

Connection = psycopg.AsyncConnection[tuple[object, ...]]

ADMITTED = {
    "task_id": "'gen_other'",
    "account_id": "'other'",
    "operation_id": "'other'",
    "model_id": "'other'",
    "mode": "'other'",
    "request": "request || '{\"attempt\": 99}'",
    "price_credits": "price_credits + 1",
    "balance_held": "balance_held + 1",
    "created_at": "created_at - interval '1 s'",
    "admitted_at": "admitted_at - interval '1 s'",
    "is_canary": "not is_canary",
    "key_id": "'other'",
    "made_by": "made_by || 'x'",
}
"""What the admission wrote, each with another value of it."""

VOID = """
insert into holdfast.transfer
    (kind, cause, pending_id, debit_account, credit_account, amount, task_id, reason, actor)
select 'void', null, id, debit_account, %(credit_account)s, 0, task_id, 'by hand', 'test'
from holdfast.transfer where kind = 'pending'
"""


@pytest.fixture
async def hand(conninfo: str) -> AsyncIterator[Connection]:
    """The owner of the tables, with nothing of ours between, and no search path."""
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = pg_catalog")
        yield connection


@pytest.mark.parametrize("column", ADMITTED)
async def test_what_was_admitted_never_changes(ways: Ways, hand: Connection, column: str) -> None:
    asked = request(await ways.account(100))
    await ways.admit(asked)
    change = sql.SQL("update holdfast.generation set {} = {} where task_id = {}").format(
        sql.Identifier(column), sql.SQL(ADMITTED[column]), sql.Literal(asked.task_id)
    )
    with pytest.raises(psycopg.DatabaseError, match="what was admitted does not change") as refused:
        await hand.execute(change)
    assert refused.value.sqlstate == "HF004"


async def test_the_guards_need_no_search_path_of_the_caller(ways: Ways, hand: Connection) -> None:
    asked = request(await ways.account(100))
    await ways.admit(asked)
    with pytest.raises(psycopg.DatabaseError, match="settled without its post"):
        await hand.execute(
            "update holdfast.generation set status = 'completed', phase = 'finished', credit_status = 'settled',"
            " finished_at = clock_timestamp()"
        )
    with pytest.raises(psycopg.DatabaseError, match="resolves another hold"):
        await hand.execute(VOID, {"credit_account": "house"})
    async with hand.transaction(force_rollback=True):
        assert (await hand.execute(VOID, {"credit_account": "revenue"})).rowcount == 1
    answer = await hand.execute("select holdfast.settle_v1(%s, 10, 'workflow:test')", (asked.task_id,))
    assert await answer.fetchone()


async def test_a_size_class_is_the_whole_logarithm_of_the_pixels(hand: Connection) -> None:
    sizes = [0, 1, 2, 3] + [2**n + d for n in range(2, 40) for d in (-1, 0, 1)]
    for pixels in sizes:
        outputs = json.dumps({"outputs": [{"width": 1, "height": pixels}]})
        found = await (await hand.execute("select holdfast.size_class(%s)", (outputs,))).fetchone()
        assert found == (max(pixels.bit_length() - 1, 0),), pixels
    many = json.dumps({"outputs": [{"width": 3, "height": 5}, {"width": 1, "height": 1}]})
    for text, expected in ((many, 4), ('{"outputs": []}', 0), ("{}", 0)):
        assert await (await hand.execute("select holdfast.size_class(%s)", (text,))).fetchone() == (expected,)
