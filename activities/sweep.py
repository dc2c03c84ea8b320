"""Steps of the sweep: each a thin way to the function of the same name, which beats while it looks."""

from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.client import Client

from activities.beats import beats
from infra import sweep
from infra.db import Database
from infra.storage.store import BlobStore
from workflows.contracts.sweep import SweepOrder, SweepPart


class SweepActivities:
    """The sweep queue's activities. Each is safe to repeat, and side by side."""

    def __init__(self, *, database: Database, client: Client, store: BlobStore) -> None:
        """Touch nothing yet."""
        self._database = database
        self._client = client
        self._store = store

    @activity.defn(name="sweep_courses")
    async def sweep_courses(self, order: SweepOrder) -> SweepPart:
        """Take up again what holds credits without an open workflow; show what contradicts itself."""
        async with beats():
            return await sweep.sweep_courses(self._database, self._client, order)

    @activity.defn(name="sweep_workflows")
    async def sweep_workflows(self, order: SweepOrder) -> SweepPart:
        """End open workflows of which the database knows nothing."""
        async with beats():
            return await sweep.sweep_workflows(self._database, self._client, order)

    @activity.defn(name="sweep_lots")
    async def sweep_lots(self, order: SweepOrder) -> SweepPart:
        """Book credits past their date as lost."""
        async with beats():
            return await sweep.sweep_lots(self._database, order)

    @activity.defn(name="sweep_store")
    async def sweep_store(self, order: SweepOrder) -> SweepPart:
        """Let go of results and bytes without an owner."""
        async with beats():
            return await sweep.sweep_store(self._database, self._store, order)

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [self.sweep_courses, self.sweep_workflows, self.sweep_lots, self.sweep_store]
