"""Waiting for a condition, with an end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]],
    *,
    within_s: float,
    each_s: float = 0.1,
    despite: tuple[type[Exception], ...] = (),
) -> T:
    """The first answer of `look` that counts as true.

    Args:
        look: Asked again and again.
        within_s: Seconds after which waiting ends.
        each_s: Seconds between two looks.
        despite: Errors that mean "not yet".

    Raises:
        TimeoutError: It never came; the last error of `despite` is its cause.
    """
    last: Exception | None = None
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if answer := await look():
                        return answer
                except despite as error:
                    last = error
                await asyncio.sleep(each_s)
    except TimeoutError:
        raise TimeoutError(f"not within {within_s:g} s") from last
