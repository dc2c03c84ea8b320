"""Bytes and results without an owner."""

from collections.abc import AsyncIterator
from datetime import timedelta

from infra.db import Database
from infra.storage import sweep as storage
from infra.storage.store import BlobStore
from infra.sweep.findings import _QUERIES, BATCH, Notes
from workflows.contracts.sweep import Kind, SweepOrder, SweepPart

WALK_EVERY = timedelta(minutes=10)
"""The schedule walks the store no more often: that costs one listing of all that is there."""
GRACE = timedelta(hours=1)
"""For results of a generation that just ended without delivering them."""
_STORE = "store"


async def sweep_store(
    database: Database, store: BlobStore, order: SweepOrder, *, at_least: timedelta = WALK_EVERY
) -> SweepPart:
    """Let go of what nobody needs: results never delivered, stale claims, bytes without a claim or without a row.

    Args:
        database: What is claimed.
        store: What is there.
        order: How.
        at_least: Nothing is done when the last walk is younger; zero for whoever asks by hand.

    Raises:
        DatabaseTrouble: Postgres did not answer.
        StoreAwayError: The store did not.
    """
    if at_least:
        async with database.read() as reader:
            if await reader.value(_QUERIES["last_look"], step="store", within=at_least):
                return SweepPart()
    notes = Notes(
        "store",
        (
            Kind.ARTIFACT_WITHOUT_OWNER,
            Kind.CLAIM_WITHOUT_OWNER,
            Kind.BLOB_WITHOUT_OWNER,
            Kind.BYTES_WITHOUT_ROW,
        ),
        order,
    )
    await _artifacts(database, notes)
    await _bytes(database, store, notes)
    return await notes.close(database)


async def _artifacts(database: Database, notes: Notes) -> None:
    async with database.read() as reader:
        rows = await reader.all(_QUERIES["artifacts_without_owner"], grace=GRACE, limit=BATCH)
    for row in rows:
        repaired = False
        if not notes.order.dry_run:
            async with database.single_statement() as tx:
                repaired = await tx.run(_QUERIES["end_retention"], task_id=row["task_id"]) > 0
        notes.looked_at += row["count"]
        notes.note(
            Kind.ARTIFACT_WITHOUT_OWNER,
            row["task_id"],
            f"{row['count']} results are kept of a generation that ended without delivering them",
            "end their retention",
            repaired=repaired,
        )


async def _bytes(database: Database, store: BlobStore, notes: Notes) -> None:
    """One finding for each kind, not for each blob: inputs past their time are housekeeping, day and night."""
    dry = notes.order.dry_run
    claims = await (storage.count_stale_claims(database) if dry else storage.drop_stale_claims(database))
    blobs = await _count(storage.unneeded(database, store, keep=dry))
    strays = await _count(storage.strays(database, store, keep=dry))
    for kind, count, what, remedy in (
        (Kind.CLAIM_WITHOUT_OWNER, claims, "claims whose request is over", "drop them"),
        (Kind.BLOB_WITHOUT_OWNER, blobs, "blobs that nobody claims", "delete their bytes"),
        (Kind.BYTES_WITHOUT_ROW, strays, "blobs in the store without a row", "delete their bytes"),
    ):
        notes.looked_at += count
        if count:
            notes.note(kind, _STORE, f"{count} {what}", remedy, repaired=not dry)


async def _count(found: AsyncIterator[str]) -> int:
    count = 0
    async for _ in found:
        count += 1
    return count
