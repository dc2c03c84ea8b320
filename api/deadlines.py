"""Every call answers in time, whatever is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from api import errors

READ = timedelta(seconds=2)
"""For calls that only read; the pool gives up on a checkout after 1 s, so this bites when a statement hangs."""


@asynccontextmanager
async def answer_within(limit: timedelta, part: str = "database") -> AsyncIterator[None]:
    """Turn a block that takes longer than `limit` into 503, naming the `part` that it waited for."""
    try:
        async with asyncio.timeout(limit.total_seconds()):
            yield
    except TimeoutError as error:
        raise errors.away(part) from error
