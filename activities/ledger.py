"""Steps that move credits, or record where a generation stands: one transaction each."""

from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities.failures import told_to_temporal
from infra import faults, generations
from infra.db import Database
from workflows.contracts.generation import (
    Admission,
    Advance,
    Closing,
    GenerationRequest,
    MarkUnknown,
    Release,
    Settle,
)


class LedgerActivities:
    """The orchestrator's money steps. Each is idempotent, and each owns its transaction."""

    def __init__(
        self,
        *,
        database: Database,
        in_flight_max: int = generations.IN_FLIGHT_MAX,
        duplicate_window_s: float = 0.0,
    ) -> None:
        """`in_flight_max` bounds one account's open generations; equal ones so close together are one."""
        self._database = database
        self._in_flight_max = in_flight_max
        self._duplicate_window_s = duplicate_window_s

    @activity.defn(name="admit")
    async def admit(self, request: GenerationRequest) -> Admission:
        """Hold the price and place at once where a card is idle; one statement."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                admission = await generations.admit(
                    tx, request, in_flight_max=self._in_flight_max, duplicate_window_s=self._duplicate_window_s
                )
        faults.point("admit.committed")
        return admission

    @activity.defn(name="advance")
    async def advance(self, step: Advance) -> None:
        """Record a phase that moves no money."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                await generations.advance(tx, step)

    @activity.defn(name="settle")
    async def settle(self, order: Settle) -> Closing:
        """Post the hold and complete the generation; one statement."""
        faults.point("settle.before_commit")  # the statement commits by itself: nothing lies between the two
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                closing = await generations.settle(tx, order)
        faults.point("settle.committed")
        return closing

    @activity.defn(name="release")
    async def release(self, order: Release) -> Closing:
        """Void the hold and end the generation; one statement."""
        faults.point("release.before_commit")
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                closing = await generations.release(tx, order)
        faults.point("release.committed")
        return closing

    @activity.defn(name="mark_unknown")
    async def mark_unknown(self, order: MarkUnknown) -> None:
        """Show that the outcome isn't known."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                await generations.mark_unknown(tx, order)

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [self.admit, self.advance, self.settle, self.release, self.mark_unknown]
