"""Beats begin with the block and end with it."""

import asyncio

from temporalio.testing import ActivityEnvironment

from activities.beats import beats
from tests.support.eventually import eventually


async def test_a_step_beats_at_once_and_no_more_after_its_end() -> None:
    environment = ActivityEnvironment()
    heard: list[tuple[object, ...]] = []
    environment.on_heartbeat = lambda *details: heard.append(details)

    async def step() -> int:
        async with beats():
            await eventually(lambda: heard, what="the first beat")
            return len(asyncio.all_tasks())

    during = await environment.run(step)
    assert heard == [()]
    assert len(asyncio.all_tasks()) < during


async def test_a_body_that_is_called_by_itself_does_not_beat() -> None:
    before = len(asyncio.all_tasks())
    async with beats():
        assert len(asyncio.all_tasks()) == before
