"""Finds bytes that nobody needs: left by processes that were killed, and by retention that ended."""

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
    async with database.transaction() as tx:
        claims = await tx.run(_QUERIES["drop_stale_claims"], age=claim_age)
        claims += await tx.run(_QUERIES["drop_old_input_uses"], age=INPUT_AGE)
    return Swept(claims=claims, blobs=await _unneeded(database, store), strays=await _strays(database, store))


async def _unneeded(database: Database, store: BlobStore) -> int:
    deleted = 0
    while True:
        async with database.read() as reader:
            rows = await reader.all(_QUERIES["unneeded"], count=BATCH)
        before = deleted
        for row in rows:
            async with database.transaction() as tx:
                deleted += await records.delete_unneeded(tx, store, row["sha256"])
        if len(rows) < BATCH or deleted == before:
            return deleted


async def _strays(database: Database, store: BlobStore) -> int:
    deleted = 0
    newest = datetime.now(UTC) - STRAY_AGE
    async for sha256, _, modified_at in store.stored():
        if modified_at > newest:
            continue
        async with database.transaction() as tx:
            deleted += await records.delete_unknown(tx, store, sha256)
    return deleted
