"""A process that serves the bare side: `python -m workers.bench.bare_worker stock|alike flow|step`.

It ends with its stdin.

`stock` is what the SDK gives to whoever writes a worker by its documentation: that is what the platform's cost is
measured against. `alike` is set up as the platform's own workers are, so that what remains is the platform's work
and not its settings; its ratios are told beside.
"""

import asyncio
import sys
from enum import StrEnum

import uvloop
from temporalio.worker import Worker

from infra.settings import Settings
from infra.temporal.connection import connect
from workers.bench.bare import Bare, Setting, flow_queue, hold, step, step_queue
from workers.sandbox import sandbox

READY = "ready"


class Role(StrEnum):
    """Which half of the bare side a process serves."""

    FLOW = "flow"
    STEP = "step"


async def serve(setting: Setting, role: Role, settings: Settings) -> None:
    """Serve until stdin ends, that is until whoever started this closes it or dies."""
    client = await connect(settings)
    if role is Role.STEP:
        worker = Worker(client, task_queue=step_queue(setting), activities=[step])
    elif setting is Setting.STOCK:
        worker = Worker(client, task_queue=flow_queue(setting), workflows=[Bare], activities=[hold])
    else:
        worker = Worker(
            client,
            task_queue=flow_queue(setting),
            workflows=[Bare],
            activities=[hold],
            workflow_runner=sandbox(Bare.__module__),
            no_remote_activities=True,
        )
    async with worker:
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    chosen = Setting(sys.argv[1])
    run = asyncio.run if chosen is Setting.STOCK else uvloop.run
    run(serve(chosen, Role(sys.argv[2]), Settings(temporal_address=sys.argv[3])))
