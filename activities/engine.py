"""The card's activity: beats, cancel and hand-over around one `CardRun`."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from activities.card_supply import TryAgain
from workflows.contracts import timeouts
from workflows.contracts.generation import RunOrder, RunOutcome

FINISHING_S = 3.0
"""A leaving agent lets a result that is being stored get there; a run in the engine is left to the next agent."""


class EngineActivities:
    """The activities of one card."""

    def __init__(self, desk: CardDesk) -> None:
        """Serve this card only."""
        self._desk = desk

    def all(self) -> list[Callable[..., Any]]:
        """What the card's worker registers."""
        return [self.run_on_card]

    @activity.defn(name="run_on_card")
    async def run_on_card(self, order: RunOrder) -> RunOutcome:
        """Run on this card: attach, else submit; follow; upload. See `workflows.contracts.ports`.

        Raises:
            ApplicationError: Retryable; nothing is decided, and the next try attaches.
        """
        if order.card_uuid != self._desk.card_uuid:
            raise ApplicationError("the order names another card", type="wrong_card", non_retryable=True)
        scheduled_at = (order.ordered_at or activity.info().scheduled_time).timestamp()
        run = CardRun(self._desk, order, scheduled_at=scheduled_at)
        course = asyncio.create_task(run.course())
        beats = asyncio.create_task(_beat(order, run))
        leaving = asyncio.create_task(activity.wait_for_worker_shutdown())
        try:
            return await _accompany(course, leaving, run)
        except TryAgain as error:
            raise ApplicationError(str(error), type="host_away") from error
        finally:
            for task in (course, beats, leaving):
                task.cancel()
            await asyncio.gather(course, beats, leaving, return_exceptions=True)


async def _accompany(course: asyncio.Task[RunOutcome], leaving: asyncio.Task[None], run: CardRun) -> RunOutcome:
    """Wait for the course, through cancels that ask it to stop, until it ends or the agent leaves."""
    while True:
        try:
            await asyncio.wait({course, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or not details.cancel_requested:
                raise  # timed out or ended elsewhere: the engine's run stays, for whoever attaches next
            run.stop()
            continue
        if not course.done() and run.delivering:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(course), FINISHING_S)
        if course.done():
            return course.result()
        raise TryAgain("the agent is leaving; the engine goes on")


async def _beat(order: RunOrder, run: CardRun) -> None:
    while True:
        # The first comes after a beat's time: to have started is word enough, and the server has that to record.
        await asyncio.sleep(timeouts.BEAT.total_seconds())
        activity.heartbeat(order.task_id, round(run.fraction, 4))
