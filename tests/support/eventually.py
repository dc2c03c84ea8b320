"""Waiting for a condition instead of for a time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    probe: Callable[[], Awaitable[T]], *, within: float = ..., every: float = ..., what: str = ...
) -> T: ...
@overload
async def eventually(probe: Callable[[], T], *, within: float = ..., every: float = ..., what: str = ...) -> T: ...
async def eventually(
    probe: Callable[[], Any], *, within: float = 20.0, every: float = 0.02, what: str = "the condition"
) -> Any:
    """Ask `probe` until its answer is true and return that answer.

    Args:
        probe: A function, async or not.
        within: Seconds after which the test fails; a bound, not an expectation.
        every: Seconds between two asks.
        what: Named in the failure.
    """
    end = time.monotonic() + within
    while True:
        answer = probe()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {within} s; last answer {answer!r}")
        await asyncio.sleep(every)
