"""Asking for a sweep now, in the workflow that the schedule starts."""

import asyncio

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from infra.temporal.generations import TemporalAway
from workflows.contracts import names, queues, timeouts
from workflows.contracts.sweep import SweepOrder, SweepReport

WAIT_S = 20.0
"""Under what common proxies wait; a sweep of thousands takes longer and goes on."""


async def sweep_now(client: Client, order: SweepOrder) -> SweepReport | None:
    """Sweep; None when it isn't over after `WAIT_S` or was ended, and what it found is in the database.

    Who asks while one runs by hand joins that one, unless one of the two is a dry run.

    Raises:
        TemporalAway: The server did not answer.
    """
    try:
        handle: WorkflowHandle[object, SweepReport] = await client.start_workflow(
            names.SWEEP_WORKFLOW,
            order,
            id=f"{names.SWEEP_ID}-dry" if order.dry_run else names.SWEEP_ID,
            task_queue=queues.ORCHESTRATOR,
            result_type=SweepReport,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            execution_timeout=timeouts.SWEEP_RUN,
            task_timeout=timeouts.WORKFLOW_TASK,
        )
        async with asyncio.timeout(WAIT_S):
            return await handle.result()
    except (TimeoutError, WorkflowFailureError):
        return None
    except (RPCError, RuntimeError) as error:
        raise TemporalAway(f"the sweep could not be started: {error}") from error
