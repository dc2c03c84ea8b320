"""One Temporal worker a card: its own queue, one slot."""

import asyncio
from datetime import timedelta

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.card_desk import CardDesk
from activities.engine import FINISHING_S, EngineActivities
from workflows.contracts import ids, timeouts

GRACE = timedelta(seconds=FINISHING_S + 2)
"""The default of 0 cancels at once. The step itself leaves within `FINISHING_S`; the rest is for its answer."""
DRAIN_S = GRACE.total_seconds() + 5
"""A worker that hasn't ended by then is left: with the server away it may never."""
BACKOFF_S = 2.0

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


async def serve_card(client: Client, desk: CardDesk, stopping: asyncio.Event) -> None:
    """Work until told to stop; a worker that fails, as while the server is away, is made anew."""
    stop = asyncio.create_task(stopping.wait())
    try:
        while not stopping.is_set():
            worker = card_worker(client, desk)
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
