"""Calls that outlast a part's restart: what the platform promises its clients, used by one of them."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from infra.db import DatabaseAway
from workers.cli.console import fail, steps

T = TypeVar("T")

PATIENCE_S = 60.0
"""A killed part is back within seconds; a supervisor that was killed too is not, and then somebody has to look."""
PAUSE_S = 0.5
PAUSE_MAX_S = 5.0
_PAYMENT_REQUIRED = 402  # good again after a top-up, which waiting doesn't bring


class NotNow(Exception):
    """The platform says that the same request may succeed later."""

    def __init__(self, message: str, *, after_s: float) -> None:
        """Keep what it said, and when it wants to be asked again."""
        super().__init__(message)
        self.after_s = min(max(after_s, PAUSE_S), PAUSE_MAX_S)


def patiently(work: Callable[[], T], *, within_s: float = PATIENCE_S) -> T:
    """Do `work`, again while a part is away; ends the command when that lasts.

    Args:
        work: Safe to repeat: a query, or a creation under an operation id of its own.
        within_s: Seconds after which nothing is tried again.
    """
    deadline = time.monotonic() + within_s
    said = ""
    while True:
        try:
            return work()
        except (httpx.TransportError, DatabaseAway, NotNow) as error:
            reason = str(error) or type(error).__name__
            pause_s = error.after_s if isinstance(error, NotNow) else PAUSE_S
            if time.monotonic() + pause_s > deadline:
                fail(f"No answer within {within_s:.0f} s: {reason}", "holdfast status; holdfast doctor")
            if reason != said:
                steps.print(f"asking again: {reason}", markup=False)
                said = reason
            time.sleep(pause_s)


def good(answer: httpx.Response) -> dict[str, Any]:
    """The body of a success; ends the command with what a refusal says.

    Raises:
        NotNow: It may succeed later.
    """
    if answer.is_error:
        error = _error(answer)
        said = f"{answer.request.method} {answer.request.url.path}: {answer.status_code}: {error['message']}"
        if error.get("retryable") and answer.status_code != _PAYMENT_REQUIRED:
            raise NotNow(said, after_s=float(answer.headers.get("retry-after", PAUSE_S)))
        fail(said, "holdfast doctor")
    document: dict[str, Any] = answer.json()
    return document


def _error(answer: httpx.Response) -> dict[str, Any]:
    try:
        found: dict[str, Any] = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return {"message": answer.text[:200]}
    return found if "message" in found else {"message": str(found)}
