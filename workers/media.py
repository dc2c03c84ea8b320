"""`python -m workers.media`: judges and records results."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.evidence import StoreActivities
from activities.media import MediaActivities
from infra import metrics
from infra.db import Database
from infra.media.decoder import Decoder
from infra.settings import Settings
from infra.storage.store import BlobStore
from infra.telemetry import configure_logging
from infra.temporal.configuration import read_configuration
from workers.runtime import Stop, connected, serve
from workflows.contracts import queues, timeouts

GRACE = timedelta(seconds=20)
"""For judging what is being judged; longer ones are tried again elsewhere, from the start."""

log = structlog.get_logger(__name__)


class MediaWorker:
    """The media queue's process."""

    def __init__(self, settings: Settings) -> None:
        """Touch nothing yet."""
        self._settings = settings
        self._stop = Stop()
        self._database = Database.from_settings(settings, application="media")
        self._store = BlobStore.from_settings(settings)
        self._concurrency = read_configuration(settings).task_queues.media.max_concurrent_activities

    async def run(self) -> None:
        """Work until told to stop. Parts that are away are waited for; none of them ends it."""
        self._stop.listen()
        async with self._database, _scratch(self._settings.home) as scratch:
            decoder = Decoder(self._concurrency)
            activities = MediaActivities(
                database=self._database, store=self._store, decoder=decoder, scratch=scratch
            )
            try:
                client = await connected(self._settings, self._stop)
                if client is not None:
                    await serve(lambda: self._worker(client, activities), self._stop, grace=GRACE)
            finally:
                decoder.close()

    def _worker(self, client: Client, activities: MediaActivities) -> Worker:
        """Unversioned: what it does depends on its argument only, whichever build asks."""
        log.info("media worker ready")
        return Worker(
            client,
            task_queue=queues.MEDIA,
            activities=[*activities.all(), *StoreActivities(database=self._database, store=self._store).all()],
            max_concurrent_activities=self._concurrency,
            graceful_shutdown_timeout=GRACE,
            # The default throttle holds beats back for most of their own time-out.
            max_heartbeat_throttle_interval=timeouts.BEAT,
            default_heartbeat_throttle_interval=timeouts.BEAT,
        )


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
    metrics.serve(Settings(), "media")
    asyncio.run(MediaWorker(Settings()).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
