"""Two Temporal workers a card: its own queue with one slot, and one for questions about what it did."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.card_desk import CardDesk
from activities.engine import FINISHING_S, EngineActivities
from activities.journal import JournalActivities
from workflows.contracts import ids, timeouts

GRACE = timedelta(seconds=FINISHING_S + 2)
"""The default of 0 cancels at once. The step itself leaves within `FINISHING_S`; the rest is for its answer."""
DRAIN_S = GRACE.total_seconds() + 5
"""A worker that hasn't ended by then is left: with the server away it may never."""
BACKOFF_S = 2.0
LOOKS_AT_ONCE = 4
"""Each is one read of the journal."""

log = structlog.get_logger(__name__)


def card_worker(client: Client, desk: CardDesk) -> Worker:
    """A worker for one card. Unversioned: a lease names a card, whichever build its agent has."""
    return Worker(
        client,
        task_queue=ids.card_queue(desk.card_uuid),
        activities=EngineActivities(desk).all(),
        max_concurrent_activities=1,
        max_concurrent_activity_task_polls=1,
        graceful_shutdown_timeout=GRACE,
        # With the default throttle a cancel takes 3.4 s to arrive where the server can't push it.
        max_heartbeat_throttle_interval=timeouts.BEAT,
        default_heartbeat_throttle_interval=timeouts.BEAT,
    )


def look_worker(client: Client, desk: CardDesk) -> Worker:
    """A worker that answers from the journal, so that no question waits for the card's run."""
    return Worker(
        client,
        task_queue=ids.look_queue(desk.card_uuid),
        activities=JournalActivities(desk).all(),
        max_concurrent_activities=LOOKS_AT_ONCE,
        max_concurrent_activity_task_polls=1,
        graceful_shutdown_timeout=timedelta(seconds=1),
    )


async def serve_card(client: Client, desk: CardDesk, stopping: asyncio.Event) -> None:
    """Work and answer until told to stop."""
    await asyncio.gather(
        _serve(lambda: card_worker(client, desk), desk, stopping),
        _serve(lambda: look_worker(client, desk), desk, stopping),
    )


async def _serve(build: Callable[[], Worker], desk: CardDesk, stopping: asyncio.Event) -> None:
    """Run a worker; one that fails, as while the server is away, is made anew."""
    stop = asyncio.create_task(stopping.wait())
    try:
        while not stopping.is_set():
            worker = build()
            running = asyncio.create_task(worker.run())
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await _drain(worker, running)
                return
            log.warning("card_worker_ended", card=desk.card_uuid, reason=repr(running.exception()))
            await asyncio.wait({stop}, timeout=BACKOFF_S)
    finally:
        stop.cancel()


async def _drain(worker: Worker, running: asyncio.Task[None]) -> None:
    ending = asyncio.gather(worker.shutdown(), running, return_exceptions=True)
    try:
        await asyncio.wait_for(ending, DRAIN_S)
    except TimeoutError:
        log.warning("card_worker_left")
