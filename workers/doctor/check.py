"""One thing that was looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's.

    Attributes:
        name: Stable, in lower case.
        ok: Whether it is as it should be.
        found: What was seen, also when it is good.
        cure: What to do; empty when nothing is to be done.
    """

    name: str
    ok: bool
    found: str
    cure: str = ""


def wrong(name: str, found: str, cure: str) -> Check:
    """Something that has to be cured."""
    return Check(name, ok=False, found=found, cure=cure)


def right(name: str, found: str) -> Check:
    """Something that is as it should be."""
    return Check(name, ok=True, found=found)
