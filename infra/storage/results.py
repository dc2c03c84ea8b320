"""What hosts were allowed to store as results, and what of that the store has: evidence of a run's end."""

import hashlib
from collections.abc import Mapping

from infra.db import Reader, Tx, load
from infra.storage.store import BlobMissingError, BlobStore
from workflows.contracts.evidence import StoreAnswer
from workflows.contracts.media import BlobRef

_QUERIES = load("infra.storage", "results.sql")


async def note_grant(tx: Tx, *, task_id: str, lease_id: str, fence: int, index: int, file: BlobRef) -> None:
    """Record what a host may store as this output; a later grant of the same output counts."""
    await tx.run(
        _QUERIES["note_grant"],
        task_id=task_id,
        lease_id=lease_id,
        fence=fence,
        idx=index,
        sha256=file.sha256,
        size=file.size,
        mime=file.mime,
    )


async def granted(reader: Reader, *, task_id: str, lease_id: str) -> dict[int, BlobRef]:
    """What was granted under a lease, by the output's place."""
    rows = await reader.all(_QUERIES["granted"], task_id=task_id, lease_id=lease_id)
    return {row["idx"]: BlobRef(sha256=row["sha256"], size=row["size"], mime=row["mime"]) for row in rows}


async def sought(store: BlobStore, granted: Mapping[int, BlobRef], *, outputs: int) -> StoreAnswer:
    """Whether each output was granted and is stored whole. Less than all of them proves nothing.

    Raises:
        StoreAwayError: The store did not answer.
    """
    wanted = [granted[place] for place in range(outputs) if place in granted]
    if len(wanted) < outputs:
        return StoreAnswer(said=f"{len(wanted)} of {outputs} result(s) were granted to be stored")
    whole = [file for file in wanted if await _is_whole(store, file)]
    said = f"{outputs} result(s) were granted to be stored, {len(whole)} of them are there, whole"
    return StoreAnswer(files=tuple(wanted) if len(whole) == outputs else (), said=said)


async def _is_whole(store: BlobStore, file: BlobRef) -> bool:
    """Right size and right digest: not every store checks what it takes."""
    if await store.head(file.sha256) != file.size:
        return False
    digest = hashlib.sha256()
    try:
        async for piece in await store.open(file.sha256):
            digest.update(piece)
    except BlobMissingError:
        return False
    return digest.hexdigest() == file.sha256
