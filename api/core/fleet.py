"""The fleet, read at most once in two seconds by one process."""

import time
from datetime import UTC, datetime

from infra import fleet
from infra.db import Database
from infra.fleet import FleetView

CACHE_S = 2.0
"""A page that many look at reads the fleet this often at most."""


class FleetCache:
    """A short cache of the fleet, one a process."""

    def __init__(self, database: Database) -> None:
        """Reads nothing yet."""
        self._database = database
        self._read_at = float("-inf")
        self._at = datetime.now(UTC)
        self._seen: FleetView | None = None

    async def seen(self, *, fresh: bool) -> tuple[FleetView, datetime]:
        """The fleet and when it was read.

        Raises:
            DatabaseAway: It can't be read now.
        """
        if self._seen is None or fresh or time.monotonic() - self._read_at > CACHE_S:
            async with self._database.read() as reader:
                self._seen = await fleet.fleet(reader)
            self._read_at, self._at = time.monotonic(), datetime.now(UTC)
        return self._seen, self._at
