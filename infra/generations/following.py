"""Following generations: their events in order, and what moves between two events."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from infra.db import Reader, Tx, load
from workflows.contracts.message import Message
from workflows.contracts.states import Phase

_QUERIES = load(__package__, "following.sql")

EVENT_CHANNEL = "holdfast_event"
"""Notified with the generation's id at each event of one that is watched."""


class Event(Message):
    """One thing that happened to a generation.

    Attributes:
        id: Rises with each event of the generation, in the order of their commits.
        at: When.
        kind: As the database names it.
        data: What belongs to it; not all of it is for callers.
    """

    id: int
    at: datetime
    kind: str
    data: dict[str, Any]


class Pulse(Message):
    """Where a generation stands between two events.

    Attributes:
        task_id: The generation.
        phase: What is being done.
        open: Whether it holds credits.
        last_event: The highest id of its events.
        fraction: 0 to 1 while its card's host reports it running.
        queue_ahead: Who is before it; None when it doesn't wait.
        next_look_at: When evidence is looked for next.
    """

    task_id: str
    phase: Phase
    open: bool
    last_event: int
    fraction: float | None = None
    queue_ahead: int | None = None
    next_look_at: datetime | None = None


async def watch(tx: Tx, task_ids: Sequence[str], *, lasts: timedelta) -> None:
    """Have `EVENT_CHANNEL` notified of these generations' events from now on, for so long."""
    await tx.run(_QUERIES["watch"], task_ids=list(task_ids), lasts=lasts)


async def events(reader: Reader, task_id: str, *, after: int = 0) -> tuple[Event, ...]:
    """What happened to a generation behind the event `after`."""
    rows = await reader.all(_QUERIES["events"], task_id=task_id, after=after)
    return tuple(Event.model_validate(row) for row in rows)


async def pulses(reader: Reader, task_ids: Sequence[str]) -> tuple[Pulse, ...]:
    """Where these generations stand; one query for all of them."""
    rows = await reader.all(_QUERIES["pulses"], task_ids=list(task_ids))
    return tuple(Pulse.model_validate(row) for row in rows)
