"""Blobs: whole or absent, stored once, kept exactly as long as somebody needs them."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from infra.db import Database, Query
from infra.settings import Settings
from infra.storage import records
from infra.storage.signing import Permit
from infra.storage.store import BlobCorruptError, BlobMissingError, BlobStore, key
from infra.storage.sweep import sweep
from workflows.contracts.media import BlobRef

CONTENT = b"a picture" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()
BLOB = BlobRef(sha256=SHA, size=len(CONTENT), mime="image/png")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    """A local store."""
    return BlobStore.from_settings(Settings(home=tmp_path, signing_secret=SecretStr("s"), api_port=1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The content on disk."""
    path = tmp_path / "upload"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
async def accounts(database: Database) -> None:
    """Two accounts."""
    async with database.transaction() as tx:
        await tx.run(
            Query(
                "accounts",
                "insert into account (id, kind, display_name) values ('a', 'user', 'A'), ('b', 'user', 'B')",
            )
        )


async def read(store: BlobStore, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in await store.open(SHA, start, end)])


async def claim(database: Database, account: str, operation: str = "op") -> records.Claim:
    async with database.transaction() as tx:
        return await records.claim_upload(tx, BLOB, account_id=account, operation_id=operation)


async def release(database: Database, store: BlobStore, held: records.Claim) -> bool:
    async with database.transaction() as tx:
        return await records.release_upload(tx, store, held)


async def test_bytes_come_back_whole_and_in_part(store: BlobStore, file: Path, tmp_path: Path) -> None:
    await store.put_file(file, SHA)
    await store.put_file(file, SHA)
    file.unlink()  # noqa: ASYNC240 - one unlink in a test blocks nobody

    assert await store.head(SHA) == len(CONTENT)
    assert await read(store) == CONTENT
    assert await read(store, 3, 9) == CONTENT[3:9]
    assert await read(store, 5) == CONTENT[5:]
    await store.fetch_to(SHA, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT
    assert [entry[:2] async for entry in store.stored()] == [(SHA, len(CONTENT))]
    assert [p.name for p in (tmp_path / "store").rglob("*") if p.is_file()] == [SHA], "no staged file is left"


async def test_absent_and_corrupt_bytes_are_named(store: BlobStore, file: Path, tmp_path: Path) -> None:
    assert await store.head(SHA) is None
    with pytest.raises(BlobMissingError):
        await store.open(SHA)
    await store.put_file(file, "0" * 64)
    with pytest.raises(BlobCorruptError):
        await store.fetch_to("0" * 64, tmp_path / "copy")
    await store.delete(SHA)


async def test_a_damaged_blob_is_replaced_by_the_next_put(store: BlobStore, file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "store" / key(SHA)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half")
    await store.put_file(file, SHA)
    assert await read(store) == CONTENT


def test_a_signature_covers_everything_it_says(store: BlobStore) -> None:
    address = store.signer.address("GET", BLOB, 60)
    signature = address.url.rpartition("signature=")[2]
    good = Permit("GET", SHA, len(CONTENT), "image/png", int(address.expires_at.timestamp()))

    assert store.signer.allows(good, signature)
    for forged in (
        Permit("PUT", SHA, good.size, good.mime, good.expires),
        Permit("GET", "0" * 64, good.size, good.mime, good.expires),
        Permit("GET", SHA, good.size + 1, good.mime, good.expires),
        Permit("GET", SHA, good.size, "text/html", good.expires),
        Permit("GET", SHA, good.size, good.mime, good.expires + 1),
    ):
        assert not store.signer.allows(forged, signature)
    late = store.signer.address("GET", BLOB, -1)
    expired = Permit("GET", SHA, good.size, good.mime, int(late.expires_at.timestamp()))
    assert not store.signer.allows(expired, late.url.rpartition("signature=")[2])


@pytest.mark.usefixtures("accounts")
async def test_one_accounts_refusal_leaves_anothers_same_picture(
    database: Database, store: BlobStore, file: Path
) -> None:
    first = await claim(database, "a")
    await store.put_file(file, SHA)
    second = await claim(database, "b")
    await store.put_file(file, SHA)

    assert not await release(database, store, first)
    assert await read(store) == CONTENT
    assert await release(database, store, second)
    assert await store.head(SHA) is None


@pytest.mark.usefixtures("accounts")
async def test_a_claim_that_was_renewed_survives_the_release_of_the_older_one(
    database: Database, store: BlobStore, file: Path
) -> None:
    older = await claim(database, "a")
    newer = await claim(database, "a")
    await store.put_file(file, SHA)

    assert not await release(database, store, older)
    assert await store.head(SHA) == len(CONTENT)
    assert await release(database, store, newer)


@pytest.mark.usefixtures("accounts")
async def test_claims_and_releases_at_once_never_lose_claimed_bytes(
    database: Database, store: BlobStore, file: Path
) -> None:
    async def come_and_go(place: int) -> None:
        held = await claim(database, "a", f"op-{place}")
        await store.put_file(file, SHA)
        assert await store.head(SHA) == len(CONTENT), "somebody deleted what was claimed"
        await release(database, store, held)

    for _ in range(5):
        await asyncio.gather(*(come_and_go(place) for place in range(8)))
    assert await store.head(SHA) is None


@pytest.mark.usefixtures("accounts")
async def test_the_sweep_takes_what_is_left_and_nothing_else(
    database: Database, store: BlobStore, file: Path, tmp_path: Path
) -> None:
    held = await claim(database, "a")
    await store.put_file(file, SHA)
    stray = hashlib.sha256(b"stray").hexdigest()
    (tmp_path / "stray").write_bytes(b"stray")
    await store.put_file(tmp_path / "stray", stray)

    fresh = await sweep(database, store)
    assert (fresh.claims, fresh.blobs, fresh.strays) == (0, 0, 0)
    async with database.transaction() as tx:
        await tx.run(Query("age", "update upload set stored_at = stored_at - interval '1 day'"))
    _age(tmp_path / "store" / key(stray))
    swept = await sweep(database, store)
    assert (swept.claims, swept.blobs, swept.strays) == (1, 1, 1)
    assert await store.head(SHA) is None
    assert await store.head(stray) is None
    await release(database, store, held)  # late, and harmless


def _age(path: Path) -> None:
    os.utime(path, (1_000_000_000, 1_000_000_000))
