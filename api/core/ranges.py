"""Conditional and partial requests of immutable bytes (RFC 9110), for one range at a time."""

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=\s*(\d*)\s*-\s*(\d*)\s*", re.IGNORECASE)
DIGITS_MAX = 18
"""Longer numbers are no offsets of ours; Python would also take quadratic time for very long ones."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` to before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many."""
        return self.end - self.start

    def content_range(self, total: int) -> str:
        """The header's value."""
        return f"bytes {self.start}-{self.end - 1}/{total}"


class UnsatisfiableError(Exception):
    """The range lies outside the content."""


def not_modified(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has these bytes already."""
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def requested_span(header: str | None, if_range: str | None, etag: str, total: int) -> Span | None:
    """The span asked for; None for all of it.

    Several ranges, other units and nonsense are ignored, which the standard allows; so is a range whose
    `If-Range` names other bytes than ours (we send no date, so a date never matches).

    Raises:
        UnsatisfiableError: 416.
    """
    if header is None or (if_range is not None and if_range.strip() != etag):
        return None
    match = _RANGE.fullmatch(header.strip())
    if match is None or max(len(match[1]), len(match[2])) > DIGITS_MAX:
        return None
    first, last = match[1], match[2]
    if not first and not last:
        return None
    if not first:
        if int(last) == 0 or total == 0:
            raise UnsatisfiableError
        return Span(max(total - int(last), 0), total)
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= total:
        raise UnsatisfiableError
    return Span(start, min(int(last) + 1, total) if last else total)
