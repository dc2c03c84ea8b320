"""Everybody in this process who follows a generation: woken through one connection, looked after by one query.

A notification wakes those whose generation it names. Once a second one query for all of them reads what has no
event, as progress and places in the queue; it also finds what a notification didn't tell, so that a listener that
was away for a moment costs a second and no event.
"""

import asyncio
import contextlib
import time
from datetime import timedelta

import structlog

from api.errors import refuse
from infra.db import Database, DatabaseTrouble, Session
from infra.generations import following
from infra.generations.following import EVENT_CHANNEL, Pulse
from workflows.contracts.failures import Code

log = structlog.get_logger(__name__)

FOLLOWERS_MAX = 500
"""Streams of one process; each holds a socket and a few KiB."""
OF_AN_ACCOUNT_MAX = 50
"""Streams of one account in one process: nobody keeps all of them to himself."""
TICK = timedelta(seconds=1)
WATCHED = timedelta(seconds=30)
"""A process that died stops costing notifications after this."""
RENEW_S = 10.0
BACKOFF_S = 1.0


class Follower:
    """One stream's ears.

    Attributes:
        task_id: What it follows.
        account_id: Whose stream it is.
        seen: Id of the last event that it read.
        pulse: Where the generation stands between two events; None until the first look.
    """

    def __init__(self, task_id: str, account_id: str) -> None:
        """Nothing was heard yet."""
        self.task_id = task_id
        self.account_id = account_id
        self.seen = 0
        self.pulse: Pulse | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something happened."""
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Until something happened; False when nothing did for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        woken = self._woken.is_set()
        self._woken.clear()
        return woken


class Followers:
    """All streams of this process."""

    def __init__(self, database: Database) -> None:
        """Nobody follows; nothing is connected before somebody does."""
        self._database = database
        self._all: set[Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._renewed_at = float("-inf")

    @property
    def count(self) -> int:
        """How many follow now."""
        return len(self._all)

    def join(self, task_id: str, account_id: str) -> Follower:
        """A follower; `leave` ends it.

        Raises:
            ApiError: 429, there are too many.
        """
        own = sum(one.account_id == account_id for one in self._all)
        if len(self._all) >= FOLLOWERS_MAX or own >= OF_AN_ACCOUNT_MAX:
            raise refuse(Code.RATE_LIMITED, "Too many event streams are open.")
        follower = Follower(task_id, account_id)
        self._all.add(follower)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._attend(), name="followers")
        return follower

    def leave(self, follower: Follower) -> None:
        """Nobody listens any more."""
        self._all.discard(follower)

    async def watch(self, follower: Follower) -> None:
        """Have events of its generation notified from now on; what happened before is there to be read."""
        async with self._database.single_statement() as tx:
            await following.watch(tx, [follower.task_id], lasts=WATCHED)

    async def close(self) -> None:
        """Stop attending."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _attend(self) -> None:
        while self._all:
            try:
                async with self._database.session() as session:
                    await session.listen(EVENT_CHANNEL)
                    await self._listen(session)
            except DatabaseTrouble as error:
                log.warning("followers interrupted", reason=type(error).__name__)
                await asyncio.sleep(BACKOFF_S)

    async def _listen(self, session: Session) -> None:
        look_at = time.monotonic()
        while self._all:
            if time.monotonic() >= look_at:
                await self._look()
                look_at = time.monotonic() + TICK.total_seconds()
            heard = await session.wait(timedelta(seconds=max(0.0, look_at - time.monotonic())))
            for follower in self._all:
                if follower.task_id in heard:
                    follower.wake()

    async def _look(self) -> None:
        """Renew what is watched, and read what moves without an event."""
        task_ids = sorted({one.task_id for one in self._all})
        if time.monotonic() - self._renewed_at > RENEW_S:
            async with self._database.single_statement() as tx:
                await following.watch(tx, task_ids, lasts=WATCHED)
            self._renewed_at = time.monotonic()
        async with self._database.read() as reader:
            pulses = {pulse.task_id: pulse for pulse in await following.pulses(reader, task_ids)}
        for follower in self._all:
            pulse = pulses.get(follower.task_id)
            if pulse is not None and (pulse != follower.pulse or pulse.last_event > follower.seen):
                follower.pulse = pulse
                follower.wake()
