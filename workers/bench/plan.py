"""What the bench is asked to measure. Imports nothing heavy: the command line reads it for every command."""

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What can be measured by itself."""

    ADMISSION = "admission"
    START = "start"
    ENGINE = "engine"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how long.

    Attributes:
        parts: Which parts.
        samples: Of each latency.
        pairs: Of engine runs.
        seconds: That a run of a pair takes at least.
        idle_s: That the stack lies still before it is weighed.
    """

    parts: frozenset[Part]
    samples: int
    pairs: int
    seconds: float
    idle_s: float
