"""Talking to generation workflows: admit, assign, cancel, resolve.

What each call promises when the other side is silent is the point of this module; its errors are

    GenerationCallError
    ├── TemporalAway          the server can't be reached
    ├── AdmissionUnanswered   the server took it, nobody answered in time
    ├── NoOpenCourse          no open workflow of that id
    └── CourseCompleted       its workflow ran to its end, so it can't be taken up again
None of them proves that nothing was held: Postgres is the authority.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TypedDict

from temporalio.client import (
    Client,
    RPCError,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
)
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import TemporalError, WorkflowAlreadyStartedError
from temporalio.service import RPCStatusCode

from workflows.contracts import ids, names, queues, timeouts
from workflows.contracts.generation import (
    Admission,
    CancelReply,
    CancelRequest,
    Closing,
    GenerationRequest,
    GenerationResult,
    LeaseGrant,
    Resolution,
)
from workflows.contracts.states import CancelAnswer, CreditStatus, Phase

FAIRNESS_KEY_BYTES_MAX = 64
"""Temporal refuses longer fairness keys; a longer account id is replaced by its digest."""
_PROBE = timedelta(milliseconds=300)
_CLOSE_RACE_PAUSE_S = 0.05
_BACKSTOP = timedelta(milliseconds=200)
"""The server ends a call at its own deadline; ours comes after it, for a server that is stuck."""
_MESSAGE_GRACE = timedelta(seconds=1)
"""On top of the workflow's own answer time: one round trip on a busy server."""

_TASK_ID = SearchAttributeKey.for_keyword(names.SA_TASK_ID)
_ACCOUNT = SearchAttributeKey.for_keyword(names.SA_ACCOUNT)
_MODEL = SearchAttributeKey.for_keyword(names.SA_MODEL)
_PHASE = SearchAttributeKey.for_keyword(names.SA_PHASE)


class _StartOptions(TypedDict):
    id: str
    task_queue: str
    task_timeout: timedelta
    id_reuse_policy: WorkflowIDReusePolicy
    id_conflict_policy: WorkflowIDConflictPolicy
    static_summary: str
    search_attributes: TypedSearchAttributes
    priority: Priority


class GenerationCallError(Exception):
    """A call to a generation's workflow had no usable answer."""


class TemporalAway(GenerationCallError):
    """The Temporal server can't be reached; whether an earlier call arrived isn't known."""


class AdmissionUnanswered(GenerationCallError):
    """Nobody answered the admission in time. It takes no hold after `admit_by`, but may have taken one before."""


class NoOpenCourse(GenerationCallError):
    """No open workflow has this id: the generation ended, was refused, or never began."""


class CourseCompleted(GenerationCallError):
    """The workflow of this id ran to its end; taking it up again could do the work twice."""


async def admit(client: Client, request: GenerationRequest) -> Admission:
    """Start the generation, or join it when it runs, and answer what became of its hold.

    Equal calls share one answer, also after the workflow closed, because the update's id is fixed
    by the attempt. Waits `timeouts.ADMISSION` at most.

    Raises:
        AdmissionUnanswered: No answer in time, or the id is taken by a run of another attempt.
        TemporalAway: The server can't be reached.
    """
    try:
        async with _deadline(timeouts.ADMISSION + _BACKSTOP):
            while True:
                try:
                    return await _update_with_start(client, request)
                except RPCError as error:
                    if error.status not in _CLOSE_RACE:
                        raise
                    # The workflow closed in the task that answered while a message arrived: the answer
                    # exists, and asking again with the same update id reads it.
                    await asyncio.sleep(_CLOSE_RACE_PAUSE_S)
    except WorkflowAlreadyStartedError as error:
        raise AdmissionUnanswered(f"{request.task_id} ran under another attempt") from error
    except _SILENCE as error:
        raise await _why_silent(client, AdmissionUnanswered(f"{request.task_id} not answered in time")) from error


async def request_cancel(client: Client, task_id: str, request: CancelRequest) -> CancelReply:
    """Ask for a cancel and answer honestly.

    When no worker answers, the request is left as a durable signal and the answer is
    `cancel_requested`; its credit status is then HELD, as far as anybody here can know.

    Raises:
        NoOpenCourse: Nothing is left to cancel; the record in Postgres says how it ended.
        TemporalAway: The server can't be reached; nothing was requested.
    """
    handle = client.get_workflow_handle(task_id)
    try:
        async with _course_of(task_id), _deadline(timeouts.CANCEL_ANSWER + _MESSAGE_GRACE):
            reply: CancelReply = await handle.execute_update(names.CANCEL_UPDATE, request, result_type=CancelReply)
            return reply
    except WorkflowUpdateFailedError as error:
        raise NoOpenCourse(f"{task_id} ended while it was asked") from error
    except _SILENCE as error:
        try:
            async with _course_of(task_id), _deadline(_MESSAGE_GRACE):
                await handle.signal(names.CANCEL_SIGNAL, request)
        except _SILENCE:
            raise TemporalAway(f"cancel of {task_id} could not be delivered") from error
        return CancelReply(task_id=task_id, answer=CancelAnswer.CANCEL_REQUESTED, credit_status=CreditStatus.HELD)


async def resume(client: Client, request: GenerationRequest, cancel: CancelRequest | None = None) -> None:
    """Take a generation up again whose workflow is lost or was ended from outside; an open one stays as it is.

    The admission finds the hold that was taken and answers with the lease that stands or stood, so the
    course goes on from there; a run is looked for before anything is started. Waits for no worker.

    Args:
        client: Of the server.
        request: What was admitted, as Postgres kept it.
        cancel: A cancel that had been asked for, and would be forgotten with the lost workflow.

    Raises:
        CourseCompleted: The last workflow of this id completed.
        TemporalAway: The server can't be reached.
    """
    try:
        async with _deadline(timeouts.ADMISSION):
            if cancel is None:
                await client.start_workflow(names.GENERATION_WORKFLOW, request, **_start_options(request))
            else:
                await client.start_workflow(
                    names.GENERATION_WORKFLOW,
                    request,
                    start_signal=names.CANCEL_SIGNAL,
                    start_signal_args=[cancel],
                    **_start_options(request),
                )
    except WorkflowAlreadyStartedError as error:
        raise CourseCompleted(f"{request.task_id} ran to its end") from error
    except _SILENCE as error:
        raise TemporalAway(f"{request.task_id} could not be taken up again") from error


async def assign(client: Client, task_id: str, lease: LeaseGrant) -> None:
    """Tell a waiting generation of the lease that it is offered. Repeating it does no harm.

    Raises:
        NoOpenCourse: It ended meanwhile; the offer lapses by itself.
        TemporalAway: Not delivered; try again.
    """
    try:
        async with _course_of(task_id), _deadline(timeouts.OFFER):
            await client.get_workflow_handle(task_id).signal(names.ASSIGNED_SIGNAL, lease)
    except _SILENCE as error:
        raise TemporalAway(f"assignment of {task_id} could not be delivered") from error


async def resolve(client: Client, task_id: str, resolution: Resolution) -> Closing:
    """Hand an operator's decision about an unknown outcome to its workflow.

    Raises:
        WorkflowUpdateFailedError: The outcome isn't unknown (any more), or no reason was given.
        NoOpenCourse: It ended meanwhile.
        TemporalAway: No answer; ask again.
    """
    try:
        async with _course_of(task_id), _deadline(timeouts.MONEY_STEP + _MESSAGE_GRACE):
            handle = client.get_workflow_handle(task_id)
            closing: Closing = await handle.execute_update(names.RESOLVE_UPDATE, resolution, result_type=Closing)
            return closing
    except _SILENCE as error:
        raise TemporalAway(f"decision about {task_id} not answered") from error


def fairness_key(account_id: str) -> str:
    """The account as Temporal's fairness sees it, at most `FAIRNESS_KEY_BYTES_MAX` bytes."""
    if len(account_id.encode()) <= FAIRNESS_KEY_BYTES_MAX:
        return account_id
    return hashlib.sha256(account_id.encode()).hexdigest()


async def _update_with_start(client: Client, request: GenerationRequest) -> Admission:
    start: WithStartWorkflowOperation[object, GenerationResult] = WithStartWorkflowOperation(
        names.GENERATION_WORKFLOW, request, result_type=GenerationResult, **_start_options(request)
    )
    try:
        admission: Admission = await client.execute_update_with_start_workflow(
            names.ADMIT_UPDATE,
            start_workflow_operation=start,
            id=ids.admission_update_id(request.attempt),
            result_type=Admission,
            rpc_timeout=timeouts.ADMISSION,
        )
    except (TemporalError, RPCError):
        # The operation keeps the same error a second time; unread, the loop logs it as lost.
        with contextlib.suppress(TemporalError, RPCError, asyncio.CancelledError):
            await start.workflow_handle()
        raise
    return admission


def _start_options(request: GenerationRequest) -> _StartOptions:
    """How a generation's workflow is started, for the first time or again."""
    return _StartOptions(
        id=request.task_id,
        task_queue=queues.ORCHESTRATOR,
        task_timeout=timeouts.WORKFLOW_TASK,
        # Only a refusal fails a workflow, and a refused operation may be tried again after a top-up. A course
        # that was terminated may be taken up again by the same rule.
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"{request.model.model_id} {request.model.mode} for {request.account_id}",
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(_TASK_ID, request.task_id),
                SearchAttributePair(_ACCOUNT, request.account_id),
                SearchAttributePair(_MODEL, request.model.model_id),
                SearchAttributePair(_PHASE, Phase.WAITING.value),
            ]
        ),
        priority=Priority(fairness_key=fairness_key(request.account_id)),
    )


_SILENCE = (TimeoutError, RPCTimeoutOrCancelledError, RPCError, RuntimeError)
"""How the SDK says that no answer came; a lazy client's failed first connection is a RuntimeError."""
_CLOSE_RACE = (RPCStatusCode.INTERNAL, RPCStatusCode.ABORTED, RPCStatusCode.FAILED_PRECONDITION)


@contextlib.asynccontextmanager
async def _deadline(limit: timedelta) -> AsyncIterator[None]:
    """End the block after `limit`. A cancel of our own caller stays one, though the SDK makes it a timeout."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        async with asyncio.timeout(limit.total_seconds()):
            yield
    except RPCTimeoutOrCancelledError:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError from None
        raise


@contextlib.asynccontextmanager
async def _course_of(task_id: str) -> AsyncIterator[None]:
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NoOpenCourse(f"{task_id} has no open workflow") from error
        raise


async def _why_silent(client: Client, unanswered: GenerationCallError) -> GenerationCallError:
    try:
        async with asyncio.timeout(_PROBE.total_seconds()):
            healthy = await client.service_client.check_health(timeout=_PROBE)
    except _SILENCE:
        healthy = False
    return unanswered if healthy else TemporalAway("the Temporal server can't be reached")
