"""What a hand with SQL can't do: the rules are the database's, not the code's."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.support.generations import Ways, request

Connection = psycopg.AsyncConnection[tuple[object, ...]]


@pytest.fixture
async def hand(conninfo: str) -> AsyncIterator[Connection]:
    """The database's superuser, with nothing of ours between."""
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = holdfast")
        yield connection


@pytest.fixture
async def task_id(ways: Ways) -> str:
    """An open generation of account `payer`-like, holding 10 of 100 credits."""
    account = await ways.account(100)
    return (await ways.admit(request(account))).task_id


END_BY_HAND = (
    "update generation set status = '{status}', phase = 'finished', finished_at = now(),"
    " credit_status = '{credit_status}'"
)


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("update transfer set amount = 1", "HF003"),
        ("update transfer set actor = 'me'", "HF003"),
        ("delete from transfer", "HF003"),
        ("truncate transfer cascade", "HF003"),
        ("truncate generation cascade", "HF003"),
        ("truncate account cascade", "HF003"),
        ("delete from account", "HF003"),
        ("update account set debits_posted = debits_posted + 1000 where kind = 'user'", "HF003"),
        ("update account set credits_posted = credits_posted + 1000 where kind = 'user'", "HF003"),
        ("update account set debits_pending = 0 where kind = 'user'", "HF003"),
        ("update account set kind = 'issuance' where kind = 'user'", "HF003"),
        ("update account set id = 'other' where kind = 'user'", "HF003"),
        ("insert into account (id, kind, display_name, credits_posted) values ('x', 'user', 'X', 5)", "HF003"),
        ("delete from generation", "HF003"),
        ("update generation set price_credits = 1", "HF004"),
        ("update generation set account_id = 'house'", "HF004"),
        (END_BY_HAND.format(status="completed", credit_status="settled"), "HF004"),
        (END_BY_HAND.format(status="failed", credit_status="released"), "HF004"),
        ("update generation set status = 'completed'", "23514"),
        ("update generation set credit_status = 'unknown'", "23514"),
    ],
)
async def test_it_is_refused(hand: Connection, task_id: str, statement: str, sqlstate: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        await hand.execute(statement)
    assert refused.value.sqlstate == sqlstate


INSERT = (
    "insert into transfer"
    " (kind, cause, pending_id, debit_account, credit_account, amount, task_id, key, reason, actor)"
    " select {kind}, coalesce({cause}, case {kind} when 'direct' then 'adjustment' end), {pending}, {debit},"
    " {credit}, {amount}, {task}, {key}, 'by hand', 'hand'"
    " from transfer where kind = 'pending'"
)
PLAIN = {
    "kind": "'direct'",
    "cause": "null",
    "pending": "null::bigint",
    "debit": "debit_account",
    "credit": "credit_account",
    "amount": "10",
    "task": "null",
    "key": "'by-hand'",
}


@pytest.mark.parametrize(
    ("values", "sqlstate"),
    [
        pytest.param(
            {"amount": "91", "credit": "'issuance'", "cause": "'adjustment'"}, "23514", id="an overdraft"
        ),
        pytest.param({"amount": "-5"}, "23514", id="a negative amount"),
        pytest.param({"credit": "debit_account"}, "23514", id="one side only"),
        pytest.param({"debit": "'issuance'", "credit": "'nobody'"}, "HF001", id="an account that is not there"),
        pytest.param({"kind": "'pending'", "task": "task_id", "key": "null"}, "23505", id="a second hold"),
        pytest.param(
            {"kind": "'post'", "pending": "id", "task": "task_id", "key": "null", "amount": "11"},
            "HF005",
            id="more than the hold",
        ),
        pytest.param(
            {"kind": "'post'", "pending": "id", "task": "task_id", "key": "null", "debit": "'house'"},
            "HF006",
            id="another payer",
        ),
        pytest.param(
            {"kind": "'post'", "pending": "id", "task": "task_id", "key": "null", "credit": "'house'"},
            "HF006",
            id="another receiver",
        ),
        pytest.param(
            {"kind": "'void'", "pending": "id", "task": "task_id", "key": "null"},
            "23514",
            id="a void that moves credits",
        ),
        pytest.param(
            {"kind": "'post'", "pending": "id", "task": "task_id", "key": "null", "amount": "5"},
            "HF004",
            id="a post that its generation does not show",
        ),
        pytest.param(
            {"kind": "'pending'", "task": "'no-such-task'", "key": "null"}, "HF004", id="a hold for no generation"
        ),
        pytest.param({"key": "null"}, "23514", id="a grant without a key"),
    ],
)
async def test_such_a_transfer_is_refused(
    hand: Connection, task_id: str, values: dict[str, str], sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        await hand.execute(INSERT.format(**{**PLAIN, **values}).encode())
    assert refused.value.sqlstate == sqlstate


async def test_a_second_resolution_is_refused_by_its_index(hand: Connection, ways: Ways, task_id: str) -> None:
    await ways.settle(task_id, 10, "operator:test")
    void = {"kind": "'void'", "pending": "id", "amount": "0", "task": "task_id", "key": "null"}
    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        await hand.execute(INSERT.format(**{**PLAIN, **void}).encode())
    assert refused.value.diag.constraint_name == "one_resolution_per_hold"


async def test_a_generation_without_a_hold_does_not_commit(hand: Connection, task_id: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        await hand.execute(
            "insert into generation (task_id, account_id, operation_id, model_id, mode, request, price_credits,"
            " balance_held, created_at, expires_at)"
            " select 'gen_free', account_id, 'free', model_id, mode, request, price_credits, 0, now(), now()"
            " from generation"
        )
    assert refused.value.sqlstate == "HF004"


@pytest.mark.parametrize(
    "change",
    [
        "status = 'failed'",
        "credit_status = 'released'",
        "charged_credits = 1",
        "phase = 'waiting'",
        "raised = true",
    ],
)
async def test_an_end_is_final(hand: Connection, ways: Ways, task_id: str, change: str) -> None:
    await ways.settle(task_id, 10, "operator:test")
    with pytest.raises(psycopg.Error) as refused:
        await hand.execute(f"update generation set {change}".encode())
    assert refused.value.sqlstate == "HF004"


async def test_unknown_does_not_become_held_again(hand: Connection, task_id: str) -> None:
    await hand.execute(
        "update generation set credit_status = 'unknown', unknown_since = now(), unknown_reason = 'x',"
        " resolve_by = now()"
    )
    with pytest.raises(psycopg.Error) as refused:
        await hand.execute("update generation set credit_status = 'held'")
    assert refused.value.sqlstate == "HF004"
