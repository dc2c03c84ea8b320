"""Versions of the workflow code. Each generation stays on the version that began it; see docs/decisions."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import structlog
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentVersion as ApiVersion
from temporalio.api.enums.v1 import TaskQueueType, WorkflowExecutionStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import VersioningOverride, WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    DescribeWorkflowExecutionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.contracts import names, queues

log = structlog.get_logger(__name__)

BUILD_ID_CHARS = 16
_DEADLINE = timedelta(seconds=5)
_POLL_S = 0.1
_POLL_LASTS = timedelta(seconds=70)
"""The server ends a poll that found nothing after 60 s, and remembers pollers for minutes after they are gone."""
_NOT_YET = (
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.FAILED_PRECONDITION,  # the version hasn't polled every queue of the current one
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
)


@cache
def build_id() -> str:
    """The version of the code that this process runs: what `build_id_now` said when it was first asked."""
    return build_id_now()


def build_id_now() -> str:
    """SHA-256 over the text of the package `workflows` as it lies there: equal code is one version."""
    digest = hashlib.sha256()
    for path, text in sorted(_sources(files("workflows"), "workflows")):
        digest.update(f"{path}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:BUILD_ID_CHARS]


async def current_version(client: Client) -> str | None:
    """The build id that new generations start on; None before the first promotion."""
    try:
        answer = await client.workflow_service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=queues.DEPLOYMENT),
            timeout=_DEADLINE,
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return answer.worker_deployment_info.routing_config.current_deployment_version.build_id or None


async def is_polled(client: Client, build: str) -> bool:
    """Whether a worker of `build` waits for workflows, or did a minute ago: a poll lasts that long."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queues.ORCHESTRATOR),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        ),
        timeout=_DEADLINE,
    )
    oldest = datetime.now(UTC) - _POLL_LASTS
    return any(
        poller.deployment_options.deployment_name == queues.DEPLOYMENT
        and poller.deployment_options.build_id == build
        and poller.last_access_time.ToDatetime(UTC) > oldest
        for poller in answer.pollers
    )


async def promote(client: Client, build: str, *, patience: timedelta) -> None:
    """Make `build` the version that new generations start on. Waits until a worker of it polls.

    It is waited for also when the version is the current one already, as after a restart: only then does
    anybody answer an admission.

    Raises:
        TimeoutError: No worker of that version came within `patience`.
    """
    told = ""
    async with asyncio.timeout(patience.total_seconds()):
        while True:
            try:
                if await is_polled(client, build):
                    if await current_version(client) != build:
                        await _make_current(client, build)
                    return
                reason = "no worker of it polls"
            except RPCError as error:
                if error.status not in _NOT_YET:
                    raise
                reason = str(error)
            if reason != told:
                told = reason
                log.info("version_not_promoted_yet", build=build, reason=reason)
            await asyncio.sleep(_POLL_S)


async def _make_current(client: Client, build: str) -> None:
    await client.workflow_service.set_worker_deployment_current_version(
        SetWorkerDeploymentCurrentVersionRequest(
            namespace=client.namespace, deployment_name=queues.DEPLOYMENT, build_id=build
        ),
        timeout=_DEADLINE,
    )


async def stranded(client: Client, build: str) -> list[str]:
    """Open generations that are pinned to another build than the one given; their ids."""
    query = f"WorkflowType = '{names.GENERATION_WORKFLOW}' AND ExecutionStatus = 'Running'"
    found = []
    async for execution in client.list_workflows(query):
        request = DescribeWorkflowExecutionRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=execution.id)
        )
        try:
            answer = await client.workflow_service.describe_workflow_execution(request, timeout=_DEADLINE)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                continue  # visibility lags behind a workflow's end
            raise
        info = answer.workflow_execution_info
        pinned = info.versioning_info.deployment_version.build_id
        if info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING and pinned not in {"", build}:
            found.append(execution.id)
    return found


async def move(client: Client, workflow_id: str, build: str) -> bool:
    """Pin one open generation to `build`; False when it ended meanwhile.

    Replay must hold: the embedded stack runs one version at a time.
    """
    request = UpdateWorkflowExecutionOptionsRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id),
        workflow_execution_options=WorkflowExecutionOptions(
            versioning_override=VersioningOverride(
                pinned=VersioningOverride.PinnedOverride(
                    behavior=VersioningOverride.PINNED_OVERRIDE_BEHAVIOR_PINNED,
                    version=ApiVersion(deployment_name=queues.DEPLOYMENT, build_id=build),
                )
            )
        ),
        update_mask=FieldMask(paths=["versioning_override"]),
    )
    try:
        await client.workflow_service.update_workflow_execution_options(request, timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


def _sources(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sources(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            found.append((f"{path}/{entry.name}", entry.read_bytes()))
    return found
