"""Generation workflows seen from outside: does one run, did it end, does it get on, which ones run at all."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.contracts import names

STUCK_ATTEMPTS = 3
"""From this attempt of one workflow task on a workflow is stuck: a worker that was killed costs one or two."""
REASON_CHARS_MAX = 300
_DEADLINE = timedelta(seconds=5)
_LAST_EVENTS = 20
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


@dataclass(frozen=True, slots=True)
class Look:
    """What the server says of a generation's latest workflow.

    Attributes:
        standing: Where it stands.
        run_id: Which run that is; empty when there is none.
        status: In the server's own word, as `terminated`.
        task_attempt: How often its present workflow task was begun; 0 without one.
    """

    standing: Standing
    run_id: str = ""
    status: str = "absent"
    task_attempt: int = 0

    @property
    def is_stuck(self) -> bool:
        """Whether it gets no further by itself."""
        return self.standing is Standing.OPEN and self.task_attempt >= STUCK_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a workflow task failed: the error's class and its words."""

    kind: str
    message: str


async def look(client: Client, task_id: str) -> Look:
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
            return Look(Standing.ABSENT)
        raise
    info = answer.workflow_execution_info
    if info.status in _OPEN:
        standing = Standing.OPEN
    elif info.status == Status.WORKFLOW_EXECUTION_STATUS_COMPLETED:
        standing = Standing.COMPLETED
    else:
        standing = Standing.BROKEN_OFF
    status = Status.Name(info.status).removeprefix("WORKFLOW_EXECUTION_STATUS_").lower()
    attempt = answer.pending_workflow_task.attempt if answer.HasField("pending_workflow_task") else 0
    return Look(standing, info.execution.run_id, status, attempt)


async def last_fault(client: Client, task_id: str, run_id: str) -> Fault | None:
    """Why the workflow's latest task failed; None when it didn't.

    Only the first failure in a row is an event; the server repeats the task without any.

    Raises:
        RPCError: The server did not answer.
    """
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=task_id, run_id=run_id),
        maximum_page_size=_LAST_EVENTS,
    )
    answer = await client.workflow_service.get_workflow_execution_history_reverse(request, timeout=_DEADLINE)
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return None
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failure = event.workflow_task_failed_event_attributes.failure
            return Fault(failure.application_failure_info.type, failure.message[:REASON_CHARS_MAX])
    return None


async def open_courses(client: Client, *, older_than: timedelta) -> AsyncIterator[tuple[str, str]]:
    """Id and run id of generations whose workflow runs since at least `older_than`.

    Visibility lags: only a first look.

    Raises:
        RPCError: The server did not answer.
    """
    before = (datetime.now(UTC) - older_than).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    query = (
        f"WorkflowType = '{names.GENERATION_WORKFLOW}' AND ExecutionStatus = 'Running' AND StartTime <= '{before}'"
    )
    async for execution in client.list_workflows(query):
        yield execution.id, execution.run_id


async def terminate(client: Client, task_id: str, run_id: str, reason: str) -> bool:
    """End this run of a workflow from outside, which runs no more of its code; False when it ended meanwhile.

    A later run of the same id is another caller's try and stays untouched.

    Raises:
        RPCError: The server did not answer.
    """
    try:
        await client.get_workflow_handle(task_id, run_id=run_id).terminate(reason=reason, rpc_timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True
