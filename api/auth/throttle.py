"""Slows down those who guess passwords."""

import time
from collections import OrderedDict

FAILURES_MAX = 10
WINDOW_S = 300.0
NAMES_MAX = 10_000
"""Bound of the memory; the oldest names are forgotten first."""


class Throttle:
    """Counts failed logins of each name in this process, within a window."""

    def __init__(self) -> None:
        """Empty; a restart forgets."""
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, name: str) -> float | None:
        """Seconds until `name` may try again; None when it may now."""
        count, since = self._failures.get(name, (0, 0.0))
        left = since + WINDOW_S - time.monotonic()
        return left if count >= FAILURES_MAX and left > 0 else None

    def failed(self, name: str) -> None:
        """Note a wrong password."""
        count, since = self._failures.pop(name, (0, time.monotonic()))
        if time.monotonic() - since > WINDOW_S:
            count, since = 0, time.monotonic()
        self._failures[name] = (count + 1, since)
        while len(self._failures) > NAMES_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, name: str) -> None:
        """Forget the failures of a name that proved itself."""
        self._failures.pop(name, None)
