"""Keys in the database: kept by digest, audited, of accounts that pay, and as they were made."""

from datetime import UTC, datetime, timedelta

import pytest

from infra.accounts.keys import Scope, create_key, key_of, keys_of, proof_of, revoke_key
from infra.db import Database, Query
from infra.db.errors import NoSuchRow, OnlyGrows, ReasonMissing
from tests.support.generations import Ways

_ALL = Query("all", "select to_jsonb(api_key)::text as key from api_key")
_ACTS = Query("acts", "select actor, subject, reason, data ->> 'deed' as deed from operator_act where act = 'key'")
_WIDEN = Query("widen", "update api_key set scopes = '{generate}'")
_UNREVOKE = Query("unrevoke", "update api_key set revoked_at = null")


async def make(database: Database, account: str, **changes: object) -> tuple[str, str]:
    """A key's id and its token."""
    asked: dict[str, object] = {"name": "shop", "scopes": [Scope.READ], "reason": "asked", "actor": "operator:eve"}
    async with database.transaction() as tx:
        key, token = await create_key(tx, account_id=account, **(asked | changes))  # type: ignore[arg-type]  # a test's keywords
    return key.id, token


async def test_the_secret_is_nowhere_and_the_key_is_found_by_it(ways: Ways, database: Database) -> None:
    account = await ways.account()
    key_id, token = await make(database, account)
    proof = proof_of(token)
    assert proof is not None
    async with database.read() as reader:
        found = await key_of(reader, proof)
        kept = "".join(row["key"] for row in await reader.all(_ALL))

    assert found is not None
    assert (found.id, found.account_id, found.scopes) == (key_id, account, (Scope.READ,))
    assert token.rsplit("_", 1)[-1] not in kept
    assert proof.secret_sha256 in kept


async def test_making_and_revoking_are_acts_with_actor_and_reason(ways: Ways, database: Database) -> None:
    key_id, _ = await make(database, await ways.account())
    for _ in range(2):
        async with database.transaction() as tx:
            await revoke_key(tx, key_id=key_id, reason="leaked", actor="operator:bob")
    async with database.read() as reader:
        acts = [tuple(row.values()) for row in await reader.all(_ACTS)]

    assert acts == [
        ("operator:eve", key_id, "asked", "created"),
        ("operator:bob", key_id, "leaked", "revoked"),
    ]


@pytest.mark.parametrize("query", [_WIDEN, _UNREVOKE], ids=lambda query: query.name)
async def test_a_key_stays_as_it_was_made_and_revoked_stays_revoked(
    ways: Ways, database: Database, query: Query
) -> None:
    key_id, _ = await make(database, await ways.account())
    async with database.transaction() as tx:
        await revoke_key(tx, key_id=key_id, reason="leaked", actor="test")
    with pytest.raises(OnlyGrows):
        async with database.transaction() as tx:
            await tx.run(query)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"reason": " "}, ReasonMissing),
        ({"actor": ""}, ReasonMissing),
        ({"scopes": []}, ValueError),
        ({"name": ""}, ValueError),
        ({"name": "x" * 101}, ValueError),
        ({"networks": ["10.0.0.1/8"]}, ValueError),
        ({"networks": ["anywhere"]}, ValueError),
    ],
)
async def test_what_does_not_fit_makes_no_key(
    ways: Ways, database: Database, changes: dict[str, object], refusal: type[Exception]
) -> None:
    account = await ways.account()
    with pytest.raises(refusal):
        await make(database, account, **changes)
    async with database.read() as reader:
        assert await keys_of(reader, account) == ()
        assert await reader.all(_ACTS) == []


@pytest.mark.parametrize("account", ["nobody", "revenue", "issuance"])
async def test_only_accounts_that_pay_have_keys(database: Database, account: str) -> None:
    with pytest.raises(NoSuchRow):
        await make(database, account)


async def test_a_key_that_never_was_cannot_be_revoked(database: Database) -> None:
    with pytest.raises(NoSuchRow):
        async with database.transaction() as tx:
            await revoke_key(tx, key_id="key_000000000000", reason="leaked", actor="test")


async def test_a_list_has_revoked_and_ended_keys_too(ways: Ways, database: Database) -> None:
    account = await ways.account()
    first, _ = await make(database, account)
    second, _ = await make(database, account, expires_at=datetime.now(UTC) - timedelta(days=1), networks=["::/0"])
    async with database.transaction() as tx:
        await revoke_key(tx, key_id=first, reason="leaked", actor="test")
    async with database.read() as reader:
        found = await keys_of(reader, account)

    assert [(key.id, key.revoked_at is not None, key.allowed_networks) for key in found] == [
        (first, True, ()),
        (second, False, ("::/0",)),
    ]
