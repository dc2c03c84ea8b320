"""The sweep: finds open holds without an open workflow, and open workflows without a hold, and mends both.

A workflow can be terminated, and a Temporal database can be lost, or restored to another moment than Postgres.
Postgres is the authority: what it holds open is taken up again, what it doesn't know holds nothing.
"""

from dataclasses import dataclass
from datetime import timedelta

import structlog
from temporalio.client import Client
from temporalio.service import RPCError

from infra import generations as records
from infra.db import Database
from infra.generations import OpenGeneration
from infra.temporal import courses, generations
from infra.temporal.courses import Standing

YOUNG = timedelta(seconds=30)
"""Younger generations and workflows are left alone: an admission is under way for three seconds at most, and
what one look finds between two steps of it, the next finds right."""
BATCH = 200
TERMINATED = "no generation of this id is in the database; nothing was held"

log = structlog.get_logger(__name__)


class TemporalSilentError(Exception):
    """Temporal did not answer the sweep; what was mended so far stays, and repeating it does no harm."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found.

    Attributes:
        looked_at: Generations that hold credits.
        resumed: Those without an open workflow, taken up again.
        terminated: Workflows without a generation, ended.
        contradictions: Generations that hold credits though their workflow completed: Postgres is older than
            Temporal. Nobody but a person can say what became of them.
    """

    looked_at: int = 0
    resumed: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.resumed or self.terminated or self.contradictions)


async def sweep(database: Database, client: Client, *, older_than: timedelta = YOUNG) -> Swept:
    """Compare what is held with what runs, and mend it. Waits for no worker. Safe to repeat, and side by side.

    Args:
        database: Where the holds are.
        client: Where the workflows are.
        older_than: Age from which on a generation or workflow is looked at; nothing younger than an admission
            may be, unless no admission can be under way.

    Raises:
        TemporalSilentError: Temporal did not answer.
        DatabaseAway: Postgres did not answer.
    """
    try:
        found = await _take_up(database, client, older_than)
        terminated = await _end_unheld(database, client, older_than)
    except (RPCError, generations.TemporalAway) as error:
        raise TemporalSilentError(str(error)) from error
    return Swept(found.looked_at, found.resumed, terminated, found.contradictions)


async def _take_up(database: Database, client: Client, older_than: timedelta) -> Swept:
    looked_at, resumed, contradictions = 0, [], []
    after: OpenGeneration | None = None
    while True:
        async with database.read() as reader:
            batch = await records.open_generations(reader, older_than=older_than, after=after, limit=BATCH)
        for each in batch:
            task_id = each.request.task_id
            standing = await courses.standing(client, task_id)
            if standing is not Standing.OPEN:
                log.warning("hold_without_workflow", task_id=task_id, workflow=standing.value)
            if standing in (Standing.ABSENT, Standing.BROKEN_OFF) and await _resume(client, each):
                resumed.append(task_id)
            elif standing is Standing.COMPLETED and await _still_open(database, task_id):
                contradictions.append(task_id)
        looked_at += len(batch)
        if len(batch) < BATCH:
            return Swept(looked_at, tuple(resumed), (), tuple(contradictions))
        after = batch[-1]


async def _resume(client: Client, found: OpenGeneration) -> bool:
    try:
        await generations.resume(client, found.request, found.cancel)
    except generations.CourseCompleted:
        return False  # somebody else took it up meanwhile, and it is over; the next sweep looks again
    return True


async def _still_open(database: Database, task_id: str) -> bool:
    """A workflow commits its end before it completes, so one that completed under our eyes shows now."""
    async with database.read() as reader:
        return await records.is_open(reader, task_id)


async def _end_unheld(database: Database, client: Client, older_than: timedelta) -> tuple[str, ...]:
    """End open workflows of which the database knows nothing: their admission is long over, and took no hold."""
    running = [task_id async for task_id in courses.open_courses(client, older_than=older_than)]
    ended = []
    for start in range(0, len(running), BATCH):
        some = running[start : start + BATCH]
        async with database.read() as reader:
            held = await records.admitted(reader, some)
        for task_id in some:
            if task_id not in held and await courses.terminate(client, task_id, TERMINATED):
                log.warning("workflow_without_hold", task_id=task_id)
                ended.append(task_id)
    return tuple(ended)
