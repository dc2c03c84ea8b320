"""Holding a generation at one moment of its course, so that a kill hits exactly there.

Nothing of the platform is changed for it: a card is cordoned, a process is stopped, a row is locked. All of it
can happen on its own on a bad day.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from infra.db import Database, DatabaseTrouble, Row, Tx, load
from workers.bench.awaiting import eventually
from workers.drill.cases import Moment, Victim
from workers.drill.processes import resume, stop
from workflows.contracts.states import Phase

_QUERIES = load(__package__)
LOOK_EACH_S = 0.02
REACH_S = 60
FRACTION = 0.1
"""A run counts as at work once so much of it is done."""


class NotReached(Exception):
    """The generation ended or stalled before the moment came."""


Reached = Callable[[str], Awaitable[None]]
"""Waits until the generation of this id is at the gate's moment."""


@asynccontextmanager
async def gate(moment: Moment, *, database: Database, home: Path, account_id: str) -> AsyncIterator[Reached]:
    """Hold generations that are created inside the block at `moment`, and let them go at its end."""
    if moment is Moment.HELD:
        context = _no_free_card(database)
    elif moment is Moment.PLACED:
        context = _stopped(Victim.HOSTAGENT, home, database, Phase.PLACED)
    elif moment is Moment.RUNNING:
        context = _at_work(database)
    elif moment is Moment.INSPECTING:
        context = _stopped(Victim.MEDIA, home, database, Phase.INSPECTING)
    elif moment is Moment.KEEPING:
        context = _locked(database, "lock_artifacts", account_id=None)
    else:
        context = _locked(database, "lock_account", account_id=account_id)
    async with context as reached:
        yield reached


@asynccontextmanager
async def _no_free_card(database: Database) -> AsyncIterator[Reached]:
    await cordon(database, cordoned=True)

    async def reached(task_id: str) -> None:
        await _phase(database, task_id, Phase.WAITING)

    try:
        yield reached
    finally:
        await cordon(database, cordoned=False)


@asynccontextmanager
async def _stopped(victim: Victim, home: Path, database: Database, phase: Phase) -> AsyncIterator[Reached]:
    pid = stop(victim, home)

    async def reached(task_id: str) -> None:
        await _phase(database, task_id, phase)

    try:
        yield reached
    finally:
        resume(pid)


@asynccontextmanager
async def _at_work(database: Database) -> AsyncIterator[Reached]:
    async def reached(task_id: str) -> None:
        await _phase(database, task_id, Phase.RUNNING, fraction=FRACTION)

    yield reached


@asynccontextmanager
async def _locked(database: Database, lock: str, *, account_id: str | None) -> AsyncIterator[Reached]:
    """Take the lock once the run is on its way, and keep it until the block ends."""
    async with contextlib.AsyncExitStack() as stack:

        async def reached(task_id: str) -> None:
            await _phase(database, task_id, Phase.RUNNING)
            tx = await stack.enter_async_context(_forgiving(database))
            await tx.run(_QUERIES[lock], **({"account_id": account_id} if account_id else {}))
            # Somebody waits for it: that step is being tried right now.
            await eventually(lambda: tx.value(_QUERIES["waiting_for_me"]), within_s=REACH_S, each_s=LOOK_EACH_S)

        yield reached


@asynccontextmanager
async def _forgiving(database: Database) -> AsyncIterator[Tx]:
    """A transaction that may lose its server: then the lock is gone with it, which is all that its end means."""
    with contextlib.suppress(DatabaseTrouble):
        async with database.transaction() as tx:
            yield tx


async def cordon(database: Database, *, cordoned: bool) -> None:
    """Stop all cards from taking work, or let them again; waits for a database that is away."""

    async def done() -> bool:
        async with database.transaction() as tx:
            await tx.run(_QUERIES["cordon"], cordoned=cordoned)
        return True

    await eventually(done, within_s=REACH_S, each_s=0.2, despite=(DatabaseTrouble,))


async def _phase(database: Database, task_id: str, phase: Phase, *, fraction: float = 0.0) -> None:
    """Wait until a generation is in a phase, and its run so far on.

    Raises:
        NotReached: It went past it, or did not come so far in time.
    """
    seen: Row | None = None

    async def there() -> bool:
        nonlocal seen
        async with database.read() as reader:
            seen = await reader.one(_QUERIES["standing"], task_id=task_id)
        if seen and seen["phase"] == Phase.FINISHED:
            raise NotReached(f"{task_id} ended {seen['status']} before it was seen {phase}")
        return bool(seen and seen["phase"] == phase and (seen["running_fraction"] or 0.0) >= fraction)

    try:
        await eventually(there, within_s=REACH_S, each_s=LOOK_EACH_S)
    except TimeoutError:
        raise NotReached(f"{task_id} is {seen and seen['phase']}, not {phase}, after {REACH_S} s") from None
