"""The gauges: what the database says of the whole platform, read often enough to be looked at."""

import time

from infra import fleet, metrics
from infra.catalog import Catalog
from infra.db import Database
from infra.sweep import figures
from workers.orchestration import warming
from workers.orchestration.loop import Loop

EACH_S = 10.0
"""Prometheus asks every 15 s by default."""


class Figures(Loop):
    """Every orchestrator shows them, where anybody can look."""

    role = "figures"
    alone = False

    def __init__(self, database: Database, models: Catalog) -> None:
        """The first look comes with the first turn."""
        super().__init__(database)
        self._models = models
        self._next_at = 0.0

    async def turn(self) -> None:
        """Read when it is time."""
        if not metrics.is_served() or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + EACH_S
        async with self._database.read() as reader:
            await figures.show(reader)
            await fleet.show_trouble(reader)
            warming.show(await warming.look(reader, self._models))
