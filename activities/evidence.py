"""Evidence about runs whose outcome nobody knows: recorded, sought in the store, and what follows from it."""

from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities.beats import beats
from activities.failures import told_to_temporal
from infra.db import Database
from infra.db.errors import AlreadyFinal
from infra.generations import doubts
from infra.storage import results
from infra.storage.store import BlobStore
from workflows.contracts.evidence import LateLook, LateStep, Look, Resolve, StoreAnswer, StoreQuestion
from workflows.contracts.generation import Closing


class EvidenceActivities:
    """The orchestrator's steps about unknown outcomes; one idempotent transaction each."""

    def __init__(self, *, database: Database) -> None:
        """Nothing is connected yet."""
        self._database = database

    @activity.defn(name="record_look")
    async def record_look(self, look: Look) -> None:
        """Record what was asked, what it said, and when."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                await doubts.record_look(tx, look)

    @activity.defn(name="resolve")
    async def resolve(self, order: Resolve) -> Closing:
        """Book an operator's decision with its reason; one statement. What is over answers as it stands."""
        with told_to_temporal():
            try:
                async with self._database.single_statement() as tx:
                    return await doubts.resolve(tx, order)
            except AlreadyFinal:
                async with self._database.read() as reader:
                    return await doubts.closing(reader, order.task_id)

    @activity.defn(name="begin_late_look")
    async def begin_late_look(self, step: LateStep) -> LateLook | None:
        """The search that the release began; None when there is none (any more)."""
        with told_to_temporal():
            async with self._database.read() as reader:
                return await doubts.late_look(reader, step.task_id)

    @activity.defn(name="plan_late_look")
    async def plan_late_look(self, step: LateStep) -> None:
        """Show when the next look is."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                await doubts.plan_late_look(tx, step)

    @activity.defn(name="end_late_look")
    async def end_late_look(self, step: LateStep) -> None:
        """End the search without a delivery."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                await doubts.end_late_look(tx, step)

    @activity.defn(name="deliver_late")
    async def deliver_late(self, step: LateStep) -> Closing:
        """Complete the generation free of charge; its artifacts are kept already. One statement."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                return await doubts.deliver_late(tx, step)

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [
            self.record_look,
            self.resolve,
            self.begin_late_look,
            self.plan_late_look,
            self.end_late_look,
            self.deliver_late,
        ]


class StoreActivities:
    """What the media worker looks for in the store."""

    def __init__(self, *, database: Database, store: BlobStore) -> None:
        """Nothing is connected yet."""
        self._database = database
        self._store = store

    @activity.defn(name="look_in_store")
    async def look_in_store(self, question: StoreQuestion) -> StoreAnswer:
        """Whether everything asked for lies in the store, whole, as granted under the lease.

        Raises:
            StoreAwayError: It says nothing about the run.
        """
        with told_to_temporal():
            async with self._database.read() as reader:
                granted = await results.granted(reader, task_id=question.task_id, lease_id=question.lease_id)
        async with beats():
            return await results.sought(self._store, granted, outputs=question.outputs)

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [self.look_in_store]
