"""`python -m workers.media`: judges and records results, and sweeps the store."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.media import MediaActivities
from infra.db import Database, DatabaseTrouble
from infra.media.decoder import Decoder
from infra.settings import Settings
from infra.storage.store import BlobStore, StoreAwayError
from infra.storage.sweep import sweep
from infra.telemetry import configure_logging
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from workflows.contracts import queues

GRACE = timedelta(seconds=20)
"""For judging what is being judged; longer ones are tried again elsewhere, from the start."""
DRAIN_S = GRACE.total_seconds() + 5
"""A worker that hasn't ended by then is left: with the server away it may never."""
BACKOFF_S = 2.0
SWEEP_EVERY_S = 600.0

log = structlog.get_logger(__name__)


class MediaWorker:
    """The media queue's process."""

    def __init__(self, settings: Settings) -> None:
        """Touch nothing yet."""
        self._settings = settings
        self._stopping = asyncio.Event()
        self._database = Database.from_settings(settings, application="media")
        self._store = BlobStore.from_settings(settings)
        self._concurrency = read_configuration(settings).task_queues.media.max_concurrent_activities

    async def run(self) -> None:
        """Work until told to stop. Parts that are away are waited for; none of them ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with self._database, _scratch(self._settings.home) as scratch:
            decoder = Decoder(self._concurrency)
            activities = MediaActivities(
                database=self._database, store=self._store, decoder=decoder, scratch=scratch
            )
            sweeping = asyncio.create_task(self._keep_sweeping())
            try:
                await self._serve(activities)
            finally:
                sweeping.cancel()
                await asyncio.gather(sweeping, return_exceptions=True)
                decoder.close()

    async def _serve(self, activities: MediaActivities) -> None:
        client = await self._temporal()
        while client is not None and not self._stopping.is_set():
            worker = Worker(
                client,
                task_queue=queues.MEDIA,
                activities=activities.all(),
                max_concurrent_activities=self._concurrency,
                graceful_shutdown_timeout=GRACE,
            )
            running = asyncio.create_task(worker.run())
            log.info("media worker ready")
            stopped = await self._until_stopped_or(running)
            if stopped:
                await _drain(worker, running)
                return
            log.warning("media worker ended", reason=repr(running.exception()))
            await self._pause(BACKOFF_S)

    async def _temporal(self) -> Client | None:
        """A connection, once there is one; None when told to stop before."""
        while not self._stopping.is_set():
            try:
                return await connect(self._settings)
            except (RuntimeError, OSError) as error:  # how the SDK says that the server isn't there
                log.warning("temporal away", reason=str(error))
            await self._pause(BACKOFF_S)
        return None

    async def _keep_sweeping(self) -> None:
        while True:
            try:
                swept = await sweep(self._database, self._store)
            except (DatabaseTrouble, StoreAwayError) as error:
                log.warning("sweep put off", reason=type(error).__name__)
            else:
                log.info("swept", claims=swept.claims, blobs=swept.blobs, strays=swept.strays)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def _until_stopped_or(self, running: asyncio.Task[None]) -> bool:
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        return not running.done()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


async def _drain(worker: Worker, running: asyncio.Task[None]) -> None:
    ending = asyncio.gather(worker.shutdown(), running, return_exceptions=True)
    try:
        await asyncio.wait_for(ending, DRAIN_S)
    except TimeoutError:
        log.warning("media worker left undrained")


@contextlib.asynccontextmanager
async def _scratch(home: Path) -> AsyncIterator[Path]:
    """A folder for files while they are judged, gone at the end."""
    await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="media-", dir=home)
    try:
        yield Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


def main() -> int:
    """Run the worker with settings from the environment."""
    configure_logging("media")
    asyncio.run(MediaWorker(Settings()).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
