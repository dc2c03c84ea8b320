"""The audit: every invariant of money, media and machine with its figure. It may run on a live system."""

from infra.db import Query, Reader, load
from workflows.contracts.message import Message

INVARIANTS = load(__package__, "audit.sql")
"""One query each; the comment under its name is the invariant."""
_FIGURES = load(__package__, "figures.sql")


class Finding(Message):
    """One figure.

    Attributes:
        name: Stable, snake case.
        meaning: The invariant, or what is counted, as a sentence.
        value: The figure.
        unit: Of `value`.
        goal: What it must be, as `= 0`; empty for a figure without one.
        ok: Whether it is.
        detail: Where it is not: up to ten ids.
    """

    name: str
    meaning: str
    value: int
    unit: str
    goal: str
    ok: bool
    detail: str = ""


async def audit(reader: Reader) -> tuple[Finding, ...]:
    """Check every invariant, all of one moment: a repeatable-read snapshot of a live system.

    Raises:
        TypeError: `reader` is a transaction; use `Database.read`.
    """
    async with reader.snapshot() as moment:
        found = [await _invariant(moment, query) for query in INVARIANTS]
        told = [await _figure(moment, query) for query in _FIGURES]
    return (*found, *told)


async def _invariant(moment: Reader, query: Query) -> Finding:
    row = await moment.one(query)
    if row is None:
        raise AssertionError(f"{query.name} gives no row")
    value = int(row["value"])
    return Finding(
        name=query.name,
        meaning=query.comment,
        value=value,
        unit="credits" if query.name == "entries_sum_to_zero" else "count",
        goal="= 0",
        ok=value == 0,
        detail=row["detail"] or "",
    )


async def _figure(moment: Reader, query: Query) -> Finding:
    return Finding(
        name=query.name,
        meaning=query.comment,
        value=int(await moment.value(query)),
        unit="credits" if query.name.startswith("credits_") else "count",
        goal="",
        ok=True,
    )
