"""What a host says of a run from its journal alone, whatever its card is busy with."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities import outcomes
from activities.card_desk import CardDesk
from infra.hosts.journal import Step
from workflows.contracts.generation import RunOrder, RunOutcome


class JournalActivities:
    """Answers about the runs of one card. It reads; a run that isn't over is for the card's own slot."""

    def __init__(self, desk: CardDesk) -> None:
        """Serve this card only."""
        self._desk = desk

    def all(self) -> list[Callable[..., Any]]:
        """What the worker of the card's look queue registers."""
        return [self.look_in_journal]

    @activity.defn(name="look_in_journal")
    async def look_in_journal(self, order: RunOrder) -> RunOutcome | None:
        """How the run ended; None when the journal doesn't say that it is over."""
        found = await asyncio.to_thread(self._desk.journal.find, self._desk.card_uuid, order.task_id, order.fence)
        if found is None or found.step is not Step.CLOSED:
            return None
        return found.outcome or outcomes.superseded("given up: nobody waited", ran=True)
