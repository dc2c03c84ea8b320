"""Which models passed their canary on a card that is alive, read at most once a second."""

import time

from infra import generations
from infra.catalog import CatalogEntry
from infra.db import Database

CACHE_S = 1.0
"""A storm of creations reads it once; a card that goes away is noticed a second later at most."""


class Readiness:
    """A short cache of `infra.generations.readiness`."""

    def __init__(self, database: Database) -> None:
        """Reads nothing yet."""
        self._database = database
        self._read_at = float("-inf")
        self._passed: frozenset[tuple[str, str]] = frozenset()

    async def ready(self, entry: CatalogEntry, *, refresh: bool = False) -> bool:
        """Whether the model, with exactly this manifest, passed on a card that is alive.

        Raises:
            DatabaseAway: It can't be read now.
        """
        if refresh or time.monotonic() - self._read_at > CACHE_S:
            async with self._database.read() as reader:
                rows = await generations.readiness(reader)
            self._passed = frozenset((row.model_id, row.digest) for row in rows)
            self._read_at = time.monotonic()
        return (entry.manifest.id, entry.digest) in self._passed

    def missing(self, *, ready: bool) -> list[str]:
        """What a model lacks, in public words."""
        return [] if ready else ["canary"]
