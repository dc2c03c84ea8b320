"""The sweep, once a minute: a workflow may be terminated by anybody at any time."""

import time

import structlog
from temporalio.client import Client

from infra.db import Database
from workers.orchestration.loop import Loop
from workers.sweep import TemporalSilentError, sweep

EACH_S = 60.0

log = structlog.get_logger(__name__)


class Sweeping(Loop):
    """Takes generations up again whose workflow is gone, and ends workflows that hold nothing."""

    role = "sweep"

    def __init__(self, database: Database, client: Client) -> None:
        """The first sweep comes with the first turn."""
        super().__init__(database)
        self._client = client
        self._next_at = 0.0

    async def turn(self) -> None:
        """Sweep when it is time."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + EACH_S
        try:
            found = await sweep(self._database, self._client)
        except TemporalSilentError as error:
            log.warning("sweep put off", reason=str(error))
            return
        if not found.clean:
            log.warning(
                "swept", resumed=found.resumed, terminated=found.terminated, contradictions=found.contradictions
            )
