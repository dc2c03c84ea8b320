"""Members and their passwords."""

import pytest

from infra import accounts, ledger
from infra.db import Database
from infra.db.errors import EmailTaken
from tests.support.generations import Ways


async def create(database: Database, account_id: str, email: str) -> accounts.Member:
    async with database.transaction() as tx:
        return await accounts.create_member(
            tx, account_id=account_id, email=email, password="correct horse", role=accounts.Role.EDITOR
        )


async def test_a_member_proves_himself(ways: Ways, database: Database) -> None:
    made = await create(database, await ways.account(kind=ledger.AccountKind.ORGANISATION), "Ada@Example.org ")
    assert made.email == "ada@example.org"
    async with database.read() as reader:
        assert await accounts.authenticate(reader, "ADA@example.org", "correct horse") == made
        assert await accounts.authenticate(reader, "ada@example.org", "wrong") is None
        assert await accounts.authenticate(reader, "bob@example.org", "correct horse") is None
        assert await accounts.member(reader, made.id) == made
        assert await accounts.member(reader, "mem_none") is None


async def test_a_new_password_replaces_the_old(ways: Ways, database: Database) -> None:
    made = await create(database, await ways.account(kind=ledger.AccountKind.ORGANISATION), "ada@example.org")
    async with database.transaction() as tx:
        assert await accounts.set_password(tx, member_id=made.id, password="battery staple")
        assert not await accounts.set_password(tx, member_id="mem_none", password="battery staple")
    async with database.read() as reader:
        assert await accounts.authenticate(reader, made.email, "correct horse") is None
        assert await accounts.authenticate(reader, made.email, "battery staple") == made


async def test_an_address_is_one_member(ways: Ways, database: Database) -> None:
    account = await ways.account(kind=ledger.AccountKind.ORGANISATION)
    await create(database, account, "ada@example.org")
    with pytest.raises(EmailTaken):
        await create(database, account, "ADA@example.org")


async def test_an_unknown_address_costs_a_hash_as_well(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the time of an answer would tell who is a member."""
    compared: list[str] = []

    def verify(password: str, stored: str) -> bool:
        compared.append(stored)
        return True

    monkeypatch.setattr(accounts, "verify_password", verify)
    async with database.read() as reader:
        assert await accounts.authenticate(reader, "bob@example.org", "x") is None, "even if it matched"
    assert len(compared) == 1


@pytest.mark.parametrize("length", [1025, 100_000])
async def test_a_password_has_a_bound(ways: Ways, database: Database, length: int) -> None:
    made = await create(database, await ways.account(kind=ledger.AccountKind.ORGANISATION), "ada@example.org")
    async with database.transaction() as tx:
        with pytest.raises(ValueError, match="1024"):
            await accounts.set_password(tx, member_id=made.id, password="x" * length)
    async with database.read() as reader:
        assert await accounts.authenticate(reader, made.email, "x" * length) is None
