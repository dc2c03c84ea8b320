"""Judging and recording what an engine made."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio import activity

from activities.beats import beats
from infra import faults, generations
from infra.db import Database
from infra.media.decoder import Decoder
from infra.media.inspect import Measured
from infra.storage.store import BlobCorruptError, BlobMissingError, BlobStore
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Inspection, InspectOrder, KeepOrder
from workflows.contracts.media import Artifact, BlobRef, MediaContract, RefusedOutput


class MediaActivities:
    """The media queue's activities, with what they touch."""

    def __init__(self, *, database: Database, store: BlobStore, decoder: Decoder, scratch: Path) -> None:
        """`scratch` is a folder for files while they are judged."""
        self._database = database
        self._store = store
        self._decoder = decoder
        self._scratch = scratch

    @activity.defn(name="inspect")
    async def inspect(self, order: InspectOrder) -> Inspection:
        """Decode every file to its end and judge each by itself; the same files give the same answer.

        Raises:
            StoreAwayError: Tried again by Temporal; it says nothing about the files.
        """
        if len(order.files) != len(order.contracts):
            message = f"{len(order.files)} results came; {len(order.contracts)} were asked for."
            return Inspection(failure=Failure(code=Code.MEDIA_VALIDATION_FAILED, message=message))
        artifacts: list[Artifact] = []
        refused: list[RefusedOutput] = []
        first: Failure | None = None
        for index, (blob, contract) in enumerate(zip(order.files, order.contracts, strict=True)):
            async with beats():
                found = await self._judge(blob, contract)
            if isinstance(found, Failure):
                first = first or found
                refused.append(RefusedOutput(index=index, code=found.code, message=found.message))
            else:
                artifacts.append(
                    Artifact(index=index, role=contract.role, blob=blob, width=found.width, height=found.height)
                )
        return Inspection(artifacts=tuple(artifacts), failure=None if artifacts else first, refused=tuple(refused))

    @activity.defn(name="keep")
    async def keep(self, order: KeepOrder) -> None:
        """Record the artifacts for their owner; repeating it changes nothing.

        Raises:
            ArtifactContradiction: Something else was kept before.
        """
        async with beats(), self._database.transaction() as tx:
            await generations.keep(tx, order)
        faults.point("keep.committed")

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [self.inspect, self.keep]

    async def _judge(self, blob: BlobRef, contract: MediaContract) -> Measured | Failure:
        size = await self._store.head(blob.sha256)
        if size is None or size != blob.size:
            return _broken(contract, "was not stored whole")
        if size > contract.bytes_max:
            return _broken(contract, f"has {size} bytes; the limit is {contract.bytes_max}")
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            path = Path(folder) / "file"
            try:
                await self._store.fetch_to(blob.sha256, path)
            except (BlobMissingError, BlobCorruptError):
                return _broken(contract, "was not stored whole")
            return await self._decoder.judge(path, contract)


def _broken(contract: MediaContract, what: str) -> Failure:
    return Failure(code=Code.MEDIA_VALIDATION_FAILED, message=f"The result `{contract.role}` {what}.")
