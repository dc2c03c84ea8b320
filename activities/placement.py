"""Steps between a generation and the card it is offered: compare-and-set, one transaction each."""

from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities.failures import told_to_temporal
from infra import faults, leases
from infra.db import Database
from workflows.contracts.generation import AcceptLease, Requeue


class PlacementActivities:
    """The orchestrator's steps with leases."""

    def __init__(self, *, database: Database) -> None:
        """Nothing is connected yet."""
        self._database = database

    @activity.defn(name="accept_lease")
    async def accept_lease(self, order: AcceptLease) -> bool:
        """Accept an offer; False when it lapsed or was withdrawn."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                accepted = await leases.accept(tx, order)
        faults.point("accept.committed")
        return accepted

    @activity.defn(name="requeue")
    async def requeue(self, order: Requeue) -> bool:
        """End a lease under which nothing ran, and wait again; False when it may have run."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                return await leases.requeue(tx, order)

    def all(self) -> list[Callable[..., Any]]:
        """For the worker's registration."""
        return [self.accept_lease, self.requeue]
