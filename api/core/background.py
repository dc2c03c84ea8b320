"""Work that outlives its request, bounded, and awaited at shutdown."""

import asyncio
from collections.abc import Coroutine

import structlog

log = structlog.get_logger(__name__)

TASKS_MAX = 1_000
"""Beyond this, work is dropped: all of it is done again by the sweep."""


class Background:
    """Keeps the tasks from being collected, and logs what they died of."""

    def __init__(self) -> None:
        """Empty."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run `work` beside the requests."""
        if len(self._tasks) >= TASKS_MAX:
            work.close()
            log.warning("background work dropped", work=name)
            return
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Stop what still waits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("background work failed", work=task.get_name(), cause=type(error).__name__)
