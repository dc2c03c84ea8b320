"""What is killed, and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Victim(StrEnum):
    """A process of the stack."""

    API = "api"
    ORCHESTRATOR = "orchestrator"
    MEDIA = "media"
    HOSTAGENT = "hostagent"
    ENGINE = "engine"
    POSTGRES = "postgres"
    TEMPORAL = "temporal"


class Moment(StrEnum):
    """Where a generation is held when the victim is killed."""

    HELD = "held"
    """Credits are held, no card is free."""
    PLACED = "placed"
    """A card is leased, its host has not fetched the order."""
    RUNNING = "running"
    """The engine is at work."""
    INSPECTING = "inspecting"
    """The run is over, its result is not judged yet."""
    KEEPING = "keeping"
    """The result is good and is being recorded."""
    SETTLING = "settling"
    """The result is recorded, the credits are not paid yet."""


POINTS = (
    "admit.committed",
    "accept.committed",
    "run.journaled",
    "run.submitted",
    "run.uploaded",
    "keep.committed",
    "settle.before_commit",
    "settle.committed",
    "release.before_commit",
    "release.committed",
)
"""Places in the code at which a process kills itself: between two statements, where no clock could aim."""


@dataclass(frozen=True, slots=True)
class Case:
    """One generation and one kill. Either a victim at a moment, or a point in the code."""

    victim: Victim | None
    moment: Moment | None
    point: str | None = None

    @property
    def name(self) -> str:
        """As it is asked for: `api@running`, or `point:settle.committed`."""
        return f"point:{self.point}" if self.point else f"{self.victim}@{self.moment}"


def all_cases() -> tuple[Case, ...]:
    """Every victim at every moment, then every point. Ordered so that the first ten have all of both."""
    victims, moments = tuple(Victim), tuple(Moment)
    matrix = [
        Case(victim, moments[(number + turn) % len(moments)])
        for turn in range(len(moments))
        for number, victim in enumerate(victims)
    ]
    return (*matrix, *(Case(None, None, point) for point in POINTS))


class NoSuchCase(Exception):
    """A case was asked for that doesn't exist."""


def chosen(text: str) -> Sequence[Case]:
    """The cases that `text` names: `all`, a number of them, or names with commas.

    Raises:
        NoSuchCase: A name isn't one.
    """
    cases = all_cases()
    if text == "all":
        return cases
    if text.isdigit():
        return cases[: int(text)]
    by_name = {case.name: case for case in cases}
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise NoSuchCase(f"no case {', '.join(unknown)}; there are: {', '.join(by_name)}")
    return [by_name[name] for name in names]
