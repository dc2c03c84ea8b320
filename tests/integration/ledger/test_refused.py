"""Bad input: each is refused by name, with nothing changed."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from infra import generations, ledger
from infra.db import Database, Query, Tx
from infra.db.errors import (
    AdjustmentExceeded,
    AlreadyFinal,
    AmountOutOfRange,
    HoldExceeded,
    NoSuchRow,
    NothingToResolve,
    Overdraft,
    ReasonMissing,
    Refused,
    UnfitTerm,
    WrongCounterpart,
)
from tests.support.generations import Ways, request
from workflows.contracts.generation import MarkUnknown, Settle

AMOUNTS = (0, -1, 10**12 + 1, 2**63, 10**30, Decimal("1.5"), Decimal("NaN"), Decimal("Infinity"))
BLANK = ("", " ", "\t\n ")
FOR_EVER = datetime(2100, 1, 1, tzinfo=UTC)
ALL_ROWS = Query(
    "all_rows",
    "select (select count(*) from transfer) as transfers, (select count(*) from operator_act) as acts,"
    " (select sum(credits_posted) from account) as credits, (select sum(debits_posted) from account) as debits,"
    " (select sum(debits_pending) from account) as held, (select count(*) from event) as events,"
    " (select count(*) from credit_lot) as lots, (select count(*) from account where frozen) as frozen",
)
RESOLVE = Query(
    "resolve",
    'select resolve_v1(%(task_id)s, %(credits)s, \'failed\', \'{"code": "outcome_unknown", "message": "x"}\','
    " %(reason)s, %(actor)s) as answer",
)
BY_HAND = {"reason": "a reason", "actor": "operator:test", "key": "k"}

Deed = Callable[..., Awaitable[Any]]


async def refused(database: Database, error: type[Refused], deed: Deed, **arguments: Any) -> None:
    """Do it, be refused, and find everything as it was."""

    async def rows() -> Any:
        async with database.read() as reader:
            return await reader.one(ALL_ROWS)

    before = await rows()
    with pytest.raises(error):
        async with database.transaction() as tx:
            await deed(tx, **arguments)
    assert await rows() == before


@pytest.mark.parametrize("amount", AMOUNTS)
async def test_an_amount_is_a_whole_number_in_bounds(ways: Ways, database: Database, amount: Any) -> None:
    account = await ways.account(100)
    given = {"account_id": account, "credits": amount, **BY_HAND}
    await refused(database, AmountOutOfRange, ledger.grant, **given)
    await refused(database, AmountOutOfRange, ledger.top_up, **given)
    await refused(database, AmountOutOfRange, ledger.promote, **given, expires_at=FOR_EVER)
    if amount != -1:  # a correction may take
        await refused(database, AmountOutOfRange, ledger.adjust, **given)
    assert await ways.balance(account) == (100, 0, 0)


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("which", ["reason", "actor"])
async def test_who_and_why_are_never_blank(ways: Ways, database: Database, which: str, blank: str) -> None:
    account = await ways.account(100)
    said = {**BY_HAND, which: blank}
    given = {"account_id": account, "credits": 5, **said}
    await refused(database, ReasonMissing, ledger.grant, **given)
    await refused(database, ReasonMissing, ledger.top_up, **given)
    await refused(database, ReasonMissing, ledger.promote, **given, expires_at=FOR_EVER)
    await refused(database, ReasonMissing, ledger.adjust, **given)
    del said["key"]
    await refused(database, ReasonMissing, ledger.freeze, account_id=account, frozen=True, **said)


@pytest.mark.parametrize("account_id", ["nobody", "revenue", "issuance", "promotions", "loss"])
async def test_only_accounts_that_pay_are_booked_with(database: Database, account_id: str) -> None:
    given = {"account_id": account_id, "credits": 5, **BY_HAND}
    await refused(database, NoSuchRow, ledger.grant, **given)
    await refused(database, NoSuchRow, ledger.promote, **given, expires_at=FOR_EVER)
    await refused(database, NoSuchRow, ledger.adjust, **given)
    await refused(
        database, NoSuchRow, ledger.freeze, account_id=account_id, frozen=True, reason="r", actor="operator:test"
    )


async def test_nobody_takes_more_than_there_is(ways: Ways, database: Database) -> None:
    account = await ways.account(100)
    await ways.admit(request(account))
    await refused(database, Overdraft, ledger.adjust, account_id=account, credits=-91, **BY_HAND)


async def test_a_promotion_ends_after_it_began(ways: Ways, database: Database) -> None:
    account = await ways.account(0)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await refused(database, UnfitTerm, ledger.promote, account_id=account, credits=5, **BY_HAND, expires_at=past)


async def settled(ways: Ways, account: str, charged: int) -> str:
    """A generation that was charged so much."""
    asked = request(account)
    await ways.admit(asked)
    await ways.keep(asked)
    await ways.settle(asked.task_id, charged)
    return asked.task_id


async def test_a_generation_is_never_given_back_beyond_its_charge(ways: Ways, database: Database) -> None:
    account, other = await ways.account(100), await ways.account(100)
    task_id = await settled(ways, account, 8)

    async def adjust(tx: Tx, amount: int, key: str, account_id: str = account, task: str = task_id) -> bool:
        given = {"reason": "broken", "actor": "operator:test", "key": key}
        return await ledger.adjust(tx, account_id=account_id, credits=amount, task_id=task, **given)

    await refused(database, AdjustmentExceeded, adjust, amount=9, key="a")
    await refused(database, AdjustmentExceeded, adjust, amount=-1, key="b")
    await refused(database, WrongCounterpart, adjust, amount=1, key="c", account_id=other)
    await refused(database, NoSuchRow, adjust, amount=1, key="d", task="gen_none")
    async with database.transaction() as tx:
        assert await adjust(tx, 5, "e")
        assert not await adjust(tx, 5, "e"), "the same key is the same deed"
    await refused(database, AdjustmentExceeded, adjust, amount=4, key="f")
    async with database.transaction() as tx:
        await adjust(tx, -2, "g")
    await refused(database, AdjustmentExceeded, adjust, amount=-4, key="h")
    assert await ways.balance(account) == (95, 0, 10)
    assert await ways.balance("revenue") == (5, 0, 0)
    assert await ways.breaches() == []


async def test_corrections_at_once_give_back_no_more_than_the_charge(ways: Ways, database: Database) -> None:
    account = await ways.account(100)
    task_id = await settled(ways, account, 8)

    async def give_back(number: int) -> bool:
        try:
            async with database.transaction() as tx:
                return await ledger.adjust(
                    tx,
                    account_id=account,
                    credits=3,
                    task_id=task_id,
                    reason="broken",
                    actor="operator:test",
                    key=str(number),
                )
        except AdjustmentExceeded:
            return False

    assert sum(await asyncio.gather(*(give_back(number) for number in range(8)))) == 2
    assert await ways.balance(account) == (98, 0, 8)


async def test_what_is_open_is_not_corrected(ways: Ways, database: Database) -> None:
    account = await ways.account(100)
    open_one = (await ways.admit(request(account))).task_id
    await refused(
        database, AdjustmentExceeded, ledger.adjust, account_id=account, credits=1, task_id=open_one, **BY_HAND
    )


@pytest.mark.parametrize(
    ("charged", "error"), [(11, HoldExceeded), (-1, AmountOutOfRange), (2**62, AmountOutOfRange)]
)
async def test_nobody_settles_more_than_the_hold(
    ways: Ways, database: Database, charged: int, error: type[Refused]
) -> None:
    asked = request(await ways.account(100))
    await ways.admit(asked)
    await ways.keep(asked)

    async def settle(tx: Tx) -> None:
        await generations.settle(
            tx, Settle(task_id=asked.task_id, credits=charged, lease_id=None, actor="workflow:test")
        )

    await refused(database, error, settle)
    assert await ways.balance(asked.account_id) == (90, 10, 0)


async def doubted(ways: Ways, account: str) -> str:
    """A generation whose outcome nobody knows."""
    asked = request(account)
    await ways.admit(asked)
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
    return asked.task_id


async def test_an_operator_resolves_only_what_is_unknown_and_says_why(ways: Ways, database: Database) -> None:
    account = await ways.account(100)
    unknown, held, over = await doubted(ways, account), request(account), request(account)
    await ways.admit(held)
    await ways.admit(over)
    await ways.release(over.task_id)

    async def resolve(tx: Tx, task_id: str, credits_charged: int | None = None, **said: str) -> Any:
        said = {"reason": "the card was empty", "actor": "operator:ada", **said}
        return await tx.value(RESOLVE, task_id=task_id, credits=credits_charged, **said)

    await refused(database, NothingToResolve, resolve, task_id=held.task_id)
    await refused(database, AlreadyFinal, resolve, task_id=over.task_id)
    await refused(database, NoSuchRow, resolve, task_id="gen_none")
    await refused(database, HoldExceeded, resolve, task_id=unknown, credits_charged=11)
    for blank in BLANK:
        await refused(database, ReasonMissing, resolve, task_id=unknown, reason=blank)
        await refused(database, ReasonMissing, resolve, task_id=unknown, actor=f"operator:{blank}")
    await refused(database, ReasonMissing, resolve, task_id=unknown, actor="workflow:x")
    async with database.transaction() as tx:
        first = await resolve(tx, unknown)
        assert await resolve(tx, unknown) == first, "repeated by the same hand it is the same"
    await refused(database, AlreadyFinal, resolve, task_id=unknown, actor="operator:bob")
    await refused(database, AlreadyFinal, resolve, task_id=unknown, credits_charged=1)
    assert await ways.balance(account) == (90, 10, 0)
    assert await ways.breaches() == []


async def test_a_balance_stays_a_number_that_everybody_reads_exactly(ways: Ways, database: Database) -> None:
    account = await ways.account(0)
    async with database.transaction() as tx:
        for number in range(9007):
            await ledger.grant(
                tx, account_id=account, credits=10**12, reason="r", actor="operator:test", key=f"much-{number}"
            )
    await refused(database, AmountOutOfRange, ledger.grant, account_id=account, credits=10**12, **BY_HAND)
    assert (await ways.balance(account))[0] == 9007 * 10**12
