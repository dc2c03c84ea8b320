"""Credits with an expiry: used first, never lost while held, lost at once when they come back too late."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from infra import generations, ledger
from infra.db import Database, Query
from infra.db.errors import KeyReused, UnfitTerm
from tests.support.generations import Ways, request
from workflows.contracts.failures import Code

LOTS = Query(
    "lots",
    "select amount, remaining, drawn, spent, expired from credit_lot where account_id = %(account_id)s"
    " order by expires_at",
)
BOOKED = Query("booked", "select credit_account, amount, key from transfer where cause = 'expiry' order by id")


async def promote(ways: Ways, account: str, credits_given: int, days: float) -> None:
    """Give credits that expire."""
    async with ways.database.transaction() as tx:
        made = await ledger.promote(
            tx,
            account_id=account,
            credits=credits_given,
            expires_at=datetime.now(UTC) + timedelta(days=days),
            reason="hello",
            actor="operator:test",
            key=f"{account}:{days}",
        )
    assert made


async def lots(ways: Ways, account: str) -> list[tuple[int, ...]]:
    """Amount, remaining, drawn, spent, expired; the first to expire first."""
    async with ways.database.read() as reader:
        return [tuple(row.values()) for row in await reader.all(LOTS, account_id=account)]


async def let_pass(conninfo: str, days: float) -> None:
    """Let the dates of lots pass. No hand of the platform's can: lots and transfers keep theirs."""
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = holdfast")
        await connection.execute("set session_replication_role = replica")
        for table in ("credit_lot", "transfer"):
            await connection.execute(
                f"update {table} set expires_at = expires_at - make_interval(days => %s)".encode(), (days,)
            )


async def test_what_expires_first_is_used_first(ways: Ways) -> None:
    account = await ways.account(10)
    await promote(ways, account, 6, days=20)
    await promote(ways, account, 5, days=10)
    assert await ways.balance(account) == (21, 0, 0)
    await ways.admit(request(account, price=8))
    assert await lots(ways, account) == [(5, 0, 5, 0, 0), (6, 3, 3, 0, 0)]
    await ways.admit(request(account, price=8))
    assert await lots(ways, account) == [(5, 0, 5, 0, 0), (6, 0, 6, 0, 0)]
    assert await ways.balance(account) == (5, 16, 0)
    assert await ways.breaches() == []


@pytest.mark.parametrize(
    ("charged", "left"),
    [
        (8, [(5, 0, 0, 5, 0), (6, 3, 0, 3, 0)]),
        (6, [(5, 0, 0, 5, 0), (6, 5, 0, 1, 0)]),
        (2, [(5, 3, 0, 2, 0), (6, 6, 0, 0, 0)]),
    ],
)
async def test_a_part_is_paid_from_what_expires_first(
    ways: Ways, charged: int, left: list[tuple[int, ...]]
) -> None:
    account = await ways.account(10)
    await promote(ways, account, 6, days=20)
    await promote(ways, account, 5, days=10)
    asked = request(account, price=8)
    await ways.admit(asked)
    await ways.keep(asked)
    await ways.settle(asked.task_id, charged)
    assert await lots(ways, account) == left
    assert await ways.balance(account) == (21 - charged, 0, charged)
    assert await ways.breaches() == []


async def test_held_credits_outlive_their_date_and_are_lost_when_they_come_back(
    ways: Ways, conninfo: str, database: Database
) -> None:
    account = await ways.account(0)
    await promote(ways, account, 20, days=1)
    kept, given_back = request(account), request(account)
    await ways.admit(kept)
    await ways.admit(given_back)
    await let_pass(conninfo, 2)
    async with database.transaction() as tx:
        assert await ledger.expire_lots(tx) == 0, "all of it is held"
    await ways.keep(kept)
    await ways.settle(kept.task_id, 7)
    closing = await ways.release(given_back.task_id)
    assert closing.balance_credits == 0
    assert await lots(ways, account) == [(20, 0, 0, 7, 13)]
    async with database.read() as reader:
        booked = await reader.all(BOOKED)
    assert [(row["credit_account"], row["amount"]) for row in booked] == [("promotions", 3), ("promotions", 10)]
    assert len({row["key"] for row in booked}) == 2
    assert await ways.balance(account) == (0, 0, 7)
    assert await ways.balance("promotions") == (-7, 0, 0)
    assert await ways.breaches() == []


async def test_what_is_past_its_date_counts_nowhere_and_is_booked_once(
    ways: Ways, conninfo: str, database: Database
) -> None:
    account = await ways.account(5)
    await promote(ways, account, 20, days=1)
    await let_pass(conninfo, 2)
    assert await ways.balance(account) == (5, 0, 0), "before any sweep"
    async with database.read() as reader:
        seen = await generations.preflight(reader, account_id=account, operation_id="x", model_id="m")
    assert seen.available_credits == 5
    answer = await ways.admit(request(account))
    assert answer.refusal is not None
    assert answer.refusal.code is Code.INSUFFICIENT_CREDITS
    assert answer.balance_credits == 5
    assert await lots(ways, account) == [(20, 0, 0, 0, 20)]
    async with database.transaction() as tx:
        assert await ledger.expire_lots(tx, account_id=account) == 0
    assert await ways.balance(account) == (5, 0, 0)
    assert await ways.breaches() == []


async def test_sweeps_of_all_accounts_at_once_book_each_lot_once(
    ways: Ways, conninfo: str, database: Database
) -> None:
    owners = [await ways.account(1) for _ in range(6)]
    for owner in owners:
        await promote(ways, owner, 7, days=1)
    await let_pass(conninfo, 2)

    async def sweep() -> int:
        async with database.transaction() as tx:
            return await ledger.expire_lots(tx, limit=4)

    async def until_nothing_is_left() -> int:
        total = 0
        while found := await sweep():
            total += found
        return total

    # Who finds an account locked leaves it, so the last look is one alone.
    at_once = sum(await asyncio.gather(*(until_nothing_is_left() for _ in range(4))))
    assert at_once + await until_nothing_is_left() == len(owners)
    assert [await lots(ways, owner) for owner in owners] == [[(7, 0, 0, 0, 7)]] * len(owners)
    assert await ways.breaches() == []


async def test_a_correction_takes_what_expires_first(ways: Ways, database: Database) -> None:
    account = await ways.account(10)
    await promote(ways, account, 6, days=1)
    async with database.transaction() as tx:
        await ledger.adjust(
            tx, account_id=account, credits=-8, reason="a mistake", actor="operator:test", key="mistake"
        )
    assert await lots(ways, account) == [(6, 0, 0, 6, 0)]
    assert await ways.balance(account) == (8, 0, 8)
    assert await ways.breaches() == []


async def test_a_date_is_part_of_the_gift(ways: Ways, database: Database) -> None:
    account = await ways.account(0)
    until = datetime.now(UTC) + timedelta(days=1)
    given: dict[str, Any] = {
        "account_id": account,
        "credits": 5,
        "reason": "r",
        "actor": "operator:test",
        "key": "k",
    }
    async with database.transaction() as tx:
        assert await ledger.grant(tx, **given, expires_at=until)
        assert not await ledger.grant(tx, **given, expires_at=until)
    for other in (None, until + timedelta(days=1)):
        async with database.transaction() as tx:
            with pytest.raises(KeyReused):
                await ledger.grant(tx, **given, expires_at=other)
    async with database.transaction() as tx:
        with pytest.raises(UnfitTerm):
            await ledger.grant(tx, **{**given, "key": "late"}, expires_at=until - timedelta(days=2))
    assert await lots(ways, account) == [(5, 5, 0, 0, 0)]
