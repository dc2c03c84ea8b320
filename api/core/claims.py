"""Keeps uploaded bytes exactly as long as somebody needs them.

A claim is committed before the bytes are stored, so a clean-up of another account's same picture sees it.
A refused admission drops its claim at once; one without an answer drops it when no hold can follow any more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from api.uploads.multipart import UploadedFile
from infra.db import Database
from infra.storage import records
from infra.storage.records import Claim
from infra.storage.store import BlobStore
from workflows.contracts import timeouts
from workflows.contracts.media import BlobRef
from workflows.domain.plan import ImageFacts

UNANSWERED_GRACE = timeouts.ADMISSION + timedelta(seconds=5)
"""After this, an admission that nobody answered has a hold or never will: `admit_by` is over."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one request claimed."""

    database: Database
    store: BlobStore
    taken: tuple[Claim, ...]

    async def release(self) -> None:
        """Drop the claims, and the bytes that nobody else needs."""
        for claim in self.taken:
            await records.release(self.database, self.store, claim)

    async def release_later(self) -> None:
        """Drop them once no hold can follow. Claims of a generation that was admitted are then its own."""
        await asyncio.sleep(UNANSWERED_GRACE.total_seconds())
        await self.release()


async def claim_and_store(
    database: Database,
    store: BlobStore,
    *,
    account_id: str,
    operation_id: str,
    pictures: Sequence[tuple[UploadedFile, ImageFacts]],
    sent_before: frozenset[str] = frozenset(),
) -> Claims:
    """Claim every picture, then store its bytes.

    `sent_before` are digests whose bytes this account stored before. Once they are claimed nobody deletes them,
    so when they are still there they need not be stored again.

    Raises:
        DatabaseAway: Nothing was claimed.
        StoreAwayError: The claims were dropped again, or the sweep will.
    """
    blobs = {
        file.sha256: (file, BlobRef(sha256=file.sha256, size=facts.size, mime=facts.mime))
        for file, facts in pictures
    }
    # One picture is one statement, and the round trips of a transaction are as long as it.
    async with database.single_statement() if len(blobs) == 1 else database.transaction() as tx:
        taken = [
            await records.claim_upload(tx, blob, account_id=account_id, operation_id=operation_id)
            for _, (_, blob) in sorted(
                blobs.items()
            )  # in one order, so that two requests can't wait for each other
        ]
    claims = Claims(database, store, tuple(taken))
    try:
        for file, blob in blobs.values():
            if blob.sha256 in sent_before and await store.head(blob.sha256) == blob.size:
                continue
            await store.put_file(file.path, blob.sha256)
    except BaseException:  # also a caller that went away: nothing was admitted, so nothing needs the bytes
        await asyncio.shield(claims.release())
        raise
    return claims
