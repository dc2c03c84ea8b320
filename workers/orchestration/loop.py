"""A loop on a database session of its own, which outlives every absence of the database."""

from abc import ABC, abstractmethod
from datetime import timedelta

import structlog

from infra.db import Database, DatabaseTrouble, Session
from workers.runtime import BACKOFF_S, Stop

TICK = timedelta(seconds=1)
log = structlog.get_logger(__name__)


class Loop(ABC):
    """Turn once for each notification, and once a second without any."""

    role: str
    channel: str | None = None
    """What it is woken by."""
    alone = True
    """Whether only one process may turn at a time: then it leads by an advisory lock of its session."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.heard: frozenset[str] = frozenset()
        """What was notified since the last turn."""

    def begin(self) -> None:  # noqa: B027 - most have nothing to begin with
        """It begins to turn, for the first time or again after its session broke."""

    @abstractmethod
    async def turn(self) -> None:
        """Do what is to be done now."""

    async def run(self, stop: Stop) -> None:
        """Turn until told to stop."""
        while not stop.wanted:
            try:
                async with self._database.session() as session:
                    await self._attend(session, stop)
            except DatabaseTrouble as error:
                log.warning("loop interrupted", role=self.role, reason=f"{type(error).__name__}: {error}")
            except Exception:  # a fault in one loop must not stop the money steps beside it; it is tried again
                log.exception("loop failed", role=self.role)
            await stop.wait(BACKOFF_S)

    async def _attend(self, session: Session, stop: Stop) -> None:
        if self.channel is not None:
            await session.listen(self.channel)
        while self.alone and not await session.try_lead(self.role):
            if await stop.wait(TICK.total_seconds()):
                return
        log.info("loop turns", role=self.role)
        self.begin()
        while not stop.wanted:
            await self.turn()
            self.heard |= await session.wait(TICK)
