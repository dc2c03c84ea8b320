"""Granting credits and reading balances."""

import pytest

from infra import ledger
from infra.db import Database
from infra.db.errors import KeyReused, NoSuchRow
from tests.support.generations import Ways


async def grant(database: Database, account_id: str, amount: int, key: str) -> bool:
    async with database.transaction() as tx:
        return await ledger.grant(
            tx, account_id=account_id, credits=amount, reason="top-up", actor="operator:test", key=key
        )


async def test_the_same_grant_twice_is_one(ways: Ways, database: Database) -> None:
    account = await ways.account(0)
    assert await grant(database, account, 25, "receipt-1") is True
    assert await grant(database, account, 25, "receipt-1") is False
    assert await ways.balance(account) == (25, 0, 0)
    assert await ways.balance("issuance") == (-25, 0, 0)


async def test_a_key_is_not_good_for_another_grant(ways: Ways, database: Database) -> None:
    account, other = await ways.account(0), await ways.account(0)
    await grant(database, account, 25, "receipt-1")
    with pytest.raises(KeyReused):
        await grant(database, account, 26, "receipt-1")
    with pytest.raises(KeyReused):
        await grant(database, other, 25, "receipt-1")


async def test_nobody_gets_nothing(database: Database) -> None:
    with pytest.raises(NoSuchRow):
        await grant(database, "nobody", 5, "receipt-1")
    async with database.read() as reader:
        with pytest.raises(NoSuchRow):
            await ledger.balance(reader, "nobody")


async def test_an_account_is_opened_once_and_keeps_its_kind(database: Database) -> None:
    async with database.transaction() as tx:
        await ledger.open_account(tx, account_id="a", kind=ledger.AccountKind.USER, name="A")
        await ledger.open_account(tx, account_id="a", kind=ledger.AccountKind.USER, name="A again")
        with pytest.raises(ledger.AccountKindDiffers):
            await ledger.open_account(tx, account_id="a", kind=ledger.AccountKind.HOUSE, name="A")
