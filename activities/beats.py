"""Beats of a step that takes longer than a moment: a worker that is killed is noticed within seconds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from temporalio import activity

from workflows.contracts import timeouts


@contextlib.asynccontextmanager
async def beats() -> AsyncIterator[None]:
    """Beat for as long as the block runs. Outside an activity, as in a test of the body alone, do nothing."""
    if not activity.in_activity():
        yield
        return
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(timeouts.BEAT.total_seconds())
