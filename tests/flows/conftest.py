"""One real Temporal server and one orchestrator for all flow tests; each test has its own account and card."""

import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.flows.server import make_current, start_server
from tests.flows.world import World


@pytest_asyncio.fixture(scope="session")
async def world() -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        environment = await stack.enter_async_context(await start_server())
        scripted = World(environment.client)
        for worker in scripted.workers():
            await stack.enter_async_context(worker)
        await make_current(environment.client)
        yield scripted
