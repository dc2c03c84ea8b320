"""Generation workflows seen from outside: does one run, did it end, which ones run at all."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.contracts import names

_DEADLINE = timedelta(seconds=5)
_OPEN = (Status.WORKFLOW_EXECUTION_STATUS_RUNNING, Status.WORKFLOW_EXECUTION_STATUS_PAUSED)


class Standing(StrEnum):
    """Where the latest workflow of a generation stands."""

    OPEN = "open"
    COMPLETED = "completed"
    """It ran to its end."""
    BROKEN_OFF = "broken_off"
    """It was ended otherwise: refused, terminated, timed out, or failed."""
    ABSENT = "absent"
    """The server knows of none."""


async def standing(client: Client, task_id: str) -> Standing:
    """Ask for one generation's workflow.

    The raw call: the SDK's own can't read the status of a paused workflow.

    Raises:
        RPCError: The server did not answer.
    """
    request = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=task_id)
    )
    try:
        answer = await client.workflow_service.describe_workflow_execution(request, timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return Standing.ABSENT
        raise
    status = answer.workflow_execution_info.status
    if status in _OPEN:
        return Standing.OPEN
    completed = status == Status.WORKFLOW_EXECUTION_STATUS_COMPLETED
    return Standing.COMPLETED if completed else Standing.BROKEN_OFF


async def open_courses(client: Client, *, older_than: timedelta) -> AsyncIterator[str]:
    """Ids of generations whose workflow runs since at least `older_than`. Visibility lags: only a first look.

    Raises:
        RPCError: The server did not answer.
    """
    before = (datetime.now(UTC) - older_than).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    query = (
        f"WorkflowType = '{names.GENERATION_WORKFLOW}' AND ExecutionStatus = 'Running' AND StartTime <= '{before}'"
    )
    async for execution in client.list_workflows(query):
        yield execution.id


async def terminate(client: Client, task_id: str, reason: str) -> bool:
    """End a workflow from outside, which runs no more of its code; False when it ended meanwhile.

    Raises:
        RPCError: The server did not answer.
    """
    try:
        await client.get_workflow_handle(task_id).terminate(reason=reason, rpc_timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True
