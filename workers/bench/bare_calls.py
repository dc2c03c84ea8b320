"""Calls to the bare side, and the processes that serve it."""

import asyncio
import itertools
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy

from workers.bench.bare import ANSWER_ONLY, ONE_STEP, Bare, Setting, flow_queue
from workers.bench.bare_worker import READY, Role

START_S = 30
"""A worker process imports and connects in about 2 s."""
END_S = 10


class BareWorkerFailed(Exception):
    """A bench worker process did not come up."""


@dataclass(frozen=True, slots=True)
class BareStart:
    """Seconds of one bare start.

    Attributes:
        answer_s: Request to answer.
        step_s: Request to the step's first line in the other process.
    """

    answer_s: float
    step_s: float


class BareCalls:
    """A client of the bare workflow."""

    def __init__(self, client: Client, setting: Setting) -> None:
        """Use a connected client, and workers of that setting."""
        self._client = client
        self.setting = setting
        self._run = uuid.uuid4().hex[:12]
        self._count = itertools.count()

    async def answer(self) -> float:
        """One update-with-start that is answered at once; seconds."""
        began = time.perf_counter()
        await self._call(ANSWER_ONLY)
        return time.perf_counter() - began

    async def start(self) -> BareStart:
        """One workflow with a local activity and a step in another process."""
        asked_at, began = time.time(), time.perf_counter()
        operation = await self._call(ONE_STEP)
        answer_s = time.perf_counter() - began
        handle = await operation.workflow_handle()
        return BareStart(answer_s, await handle.result() - asked_at)

    async def _call(self, kind: str) -> WithStartWorkflowOperation[Bare, float]:
        operation = WithStartWorkflowOperation(
            Bare.run,
            args=[kind, self.setting.value],
            id=f"bench-{self._run}-{next(self._count)}",
            task_queue=flow_queue(self.setting),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        await self._client.execute_update_with_start_workflow(Bare.admit, start_workflow_operation=operation)
        return operation


@asynccontextmanager
async def bare_workers(address: str) -> AsyncIterator[None]:
    """Processes that serve the bare side: for each setting one the workflow, one the step."""
    async with AsyncExitStack() as stack:
        for setting in Setting:
            for role in Role:
                await stack.enter_async_context(_worker(setting, role, address))
        yield


@asynccontextmanager
async def _worker(setting: Setting, role: Role, address: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers.bench.bare_worker", setting.value, role.value, address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None  # noqa: S101 - both are pipes, as asked above
    assert process.stdout is not None  # noqa: S101 - as above
    try:
        async with asyncio.timeout(START_S):
            line = await process.stdout.readline()
        if line.decode().strip() != READY:
            raise BareWorkerFailed(
                f"the bench's {setting.value} {role.value} worker ended: {line.decode().strip()}"
            )
        yield
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
