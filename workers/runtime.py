"""How a worker process lives: it waits for what is away, works until told to stop, and drains in time."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from infra.settings import Settings
from infra.temporal.connection import connect

BACKOFF_S = 1.0
log = structlog.get_logger(__name__)


@dataclass
class Stop:
    """The wish to stop, once it came; every loop of the process waits on it instead of sleeping."""

    _wanted: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> "Stop":
        """Take SIGTERM and SIGINT as the wish."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._wanted.set)
        return self

    @property
    def wanted(self) -> bool:
        """Whether it came."""
        return self._wanted.is_set()

    def ask(self) -> None:
        """Wish it."""
        self._wanted.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the wish, at most so long; whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        return self.wanted


async def connected(settings: Settings, stop: Stop) -> Client | None:
    """A client, once the server is there; None when told to stop before."""
    while not stop.wanted:
        try:
            return await connect(settings)
        except (RuntimeError, OSError) as error:  # how the SDK says that the server isn't there
            log.warning("temporal away", reason=str(error))
        await stop.wait(BACKOFF_S)
    return None


async def serve(build: Callable[[], Worker], stop: Stop, *, grace: timedelta) -> None:
    """Run a worker until told to stop, and a new one whenever it ended by itself.

    Draining ends after `grace` and a little more, whatever the server does: with the server away it may
    never end by itself, and what was not handed over is found again by its next attempt.
    """
    while not stop.wanted:
        worker = build()
        running = asyncio.create_task(worker.run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not running.done():
            await _drain(worker, running, grace)
            return
        log.warning("worker ended", reason=repr(running.exception()))
        await stop.wait(BACKOFF_S)


async def _drain(worker: Worker, running: asyncio.Task[None], grace: timedelta) -> None:
    ending = asyncio.gather(worker.shutdown(), running, return_exceptions=True)
    try:
        async with asyncio.timeout(grace.total_seconds() + 5):
            await ending
    except TimeoutError:
        log.warning("worker left undrained", after_s=grace.total_seconds() + 5)
