"""Finds bytes that nobody needs: left by processes that were killed, and by retention that ended."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from infra.db import Database, load
from infra.storage import records
from infra.storage.store import BlobStore

_QUERIES = load("infra.storage", "records.sql")

CLAIM_AGE = timedelta(minutes=15)
"""Far beyond any admission: a claim this old whose generation isn't open belongs to nobody."""
INPUT_AGE = timedelta(days=1)
"""Inputs outlive their generation by this, for whoever looks into a failure."""
STRAY_AGE = timedelta(hours=1)
"""Bytes without a row are younger than this only while they are being written."""
BATCH = 200
KEEP_BATCH = 10_000
"""Where nothing is deleted, one look has to do: a dry run of more says so many."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: stale claims dropped, blobs deleted, strays (bytes without a row) deleted."""

    claims: int
    blobs: int
    strays: int


async def sweep(database: Database, store: BlobStore, *, claim_age: timedelta = CLAIM_AGE) -> Swept:
    """Drop what nobody needs. Safe beside running uploads: each deletion re-checks under the digest's lock.

    Raises:
        DatabaseAway: Try again later; what was done is done.
        StoreAwayError: As above.
    """
    claims = await drop_stale_claims(database, claim_age=claim_age)
    blobs = len([sha256 async for sha256 in unneeded(database, store)])
    return Swept(claims=claims, blobs=blobs, strays=len([sha256 async for sha256 in strays(database, store)]))


async def drop_stale_claims(database: Database, *, claim_age: timedelta = CLAIM_AGE) -> int:
    """Drop claims of requests that are over, and inputs past their time; how many."""
    async with database.transaction() as tx:
        claims = await tx.run(_QUERIES["drop_stale_claims"], age=claim_age)
        return claims + await tx.run(_QUERIES["drop_old_input_uses"], age=INPUT_AGE)


async def count_stale_claims(database: Database, *, claim_age: timedelta = CLAIM_AGE) -> int:
    """How many `drop_stale_claims` would drop."""
    async with database.read() as reader:
        return int(await reader.value(_QUERIES["stale_claims"], claim_age=claim_age, input_age=INPUT_AGE))


async def unneeded(database: Database, store: BlobStore, *, keep: bool = False) -> AsyncIterator[str]:
    """Digests of blobs that nobody claims, as each one's bytes are deleted; with `keep` none are."""
    while True:
        async with database.read() as reader:
            rows = await reader.all(_QUERIES["unneeded"], count=KEEP_BATCH if keep else BATCH)
        deleted = 0
        for row in rows:
            if not keep:
                async with database.transaction() as tx:
                    if not await records.delete_unneeded(tx, store, row["sha256"]):
                        continue
            deleted += 1
            yield row["sha256"]
        if keep or len(rows) < BATCH or not deleted:
            return


async def strays(database: Database, store: BlobStore, *, keep: bool = False) -> AsyncIterator[str]:
    """Digests of bytes that have no row, as they are deleted; with `keep` none are."""
    newest = datetime.now(UTC) - STRAY_AGE
    async for sha256, _, modified_at in store.stored():
        if modified_at > newest:
            continue
        if keep:
            async with database.read() as reader:
                unknown = not await records.is_known(reader, sha256)
        else:
            async with database.transaction() as tx:
                unknown = await records.delete_unknown(tx, store, sha256)
        if unknown:
            yield sha256
