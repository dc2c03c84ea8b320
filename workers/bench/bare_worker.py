"""A process that serves the bare side: `python -m workers.bench.bare_worker flow|step`. Ends with its stdin.

It is set up as the platform's own workers are, so that what is compared is the work and not the settings.
"""

import asyncio
import sys

import uvloop
from temporalio.worker import Worker

from infra.settings import Settings
from infra.temporal.connection import connect
from workers.bench.bare import FLOW_QUEUE, STEP_QUEUE, Bare, hold, step
from workers.sandbox import sandbox

READY = "ready"


async def serve(role: str, settings: Settings) -> None:
    """Serve until stdin ends, that is until whoever started this closes it or dies."""
    client = await connect(settings)
    if role == "flow":
        worker = Worker(
            client,
            task_queue=FLOW_QUEUE,
            workflows=[Bare],
            activities=[hold],
            workflow_runner=sandbox(Bare.__module__),
            no_remote_activities=True,
        )
    else:
        worker = Worker(client, task_queue=STEP_QUEUE, activities=[step])
    async with worker:
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], Settings(temporal_address=sys.argv[2])))
