"""Blob rows and claims on them. Whoever deletes bytes holds the digest's lock and sees every claim."""

from dataclasses import dataclass
from datetime import datetime

from infra.db import Database, Reader, Tx, load
from infra.storage.store import BlobStore
from workflows.contracts.media import BlobRef

_QUERIES = load("infra.storage", "records.sql")


@dataclass(frozen=True, slots=True)
class Claim:
    """One request's claim on one blob.

    Attributes:
        sha256: The blob.
        account_id: Who claims.
        operation_id: For which operation.
        token: When; a later request of the same operation renews the claim and makes this one void.
    """

    sha256: str
    account_id: str
    operation_id: str
    token: datetime


async def claim_upload(tx: Tx, blob: BlobRef, *, account_id: str, operation_id: str) -> Claim:
    """Claim a blob for an operation, before its bytes are stored; one statement. The latest claim counts."""
    token = await tx.value(
        _QUERIES["claim_upload"],
        sha256=blob.sha256,
        size=blob.size,
        mime=blob.mime,
        account_id=account_id,
        operation_id=operation_id,
    )
    return Claim(sha256=blob.sha256, account_id=account_id, operation_id=operation_id, token=token)


async def mark_stored(tx: Tx, sha256: str) -> None:
    """Record that the store has the bytes."""
    await tx.run(_QUERIES["mark_stored"], sha256=sha256)


async def release_upload(tx: Tx, store: BlobStore, claim: Claim) -> bool:
    """Give a claim up, and delete the bytes when nobody else needs them; True when they were deleted."""
    await tx.value(_QUERIES["lock_blob"], sha256=claim.sha256)
    await tx.run(
        _QUERIES["drop_claim"],
        sha256=claim.sha256,
        account_id=claim.account_id,
        operation_id=claim.operation_id,
        token=claim.token,
    )
    return await _delete_if_unneeded(tx, store, claim.sha256)


async def delete_unneeded(tx: Tx, store: BlobStore, sha256: str) -> bool:
    """Delete the bytes of a blob unless somebody needs them; True when they were deleted."""
    await tx.value(_QUERIES["lock_blob"], sha256=sha256)
    return await _delete_if_unneeded(tx, store, sha256)


async def is_known(reader: Reader, sha256: str) -> bool:
    """Whether the database knows of the blob."""
    return bool(await reader.value(_QUERIES["is_known"], sha256=sha256))


async def delete_unknown(tx: Tx, store: BlobStore, sha256: str) -> bool:
    """Delete bytes that have no row; True when they were deleted."""
    await tx.value(_QUERIES["lock_blob"], sha256=sha256)
    if await tx.value(_QUERIES["is_known"], sha256=sha256):
        return False
    await store.delete(sha256)
    return True


async def operation_of(reader: Reader, task_id: str) -> tuple[str, str] | None:
    """Account and operation of a generation, for the claim of what its host uploads."""
    row = await reader.one(_QUERIES["task_of_upload"], task_id=task_id)
    return None if row is None else (row["account_id"], row["operation_id"])


async def release(database: Database, store: BlobStore, claim: Claim) -> None:
    """`release_upload` in a transaction of its own."""
    async with database.transaction() as tx:
        await release_upload(tx, store, claim)


async def _delete_if_unneeded(tx: Tx, store: BlobStore, sha256: str) -> bool:
    # The bytes go first: after a crash in between, a row without bytes is swept again, while bytes
    # without a row would have to be looked for in the store.
    if await tx.value(_QUERIES["is_needed"], sha256=sha256):
        return False
    await store.delete(sha256)
    await tx.run(_QUERIES["forget_blob"], sha256=sha256)
    return True
