"""One generation, from its hold to its settled or released end."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from workflows.contracts import names, timeouts
from workflows.contracts.generation import (
    Admission,
    CancelReply,
    CancelRequest,
    Closing,
    GenerationRequest,
    GenerationResult,
    GenerationView,
    LeaseGrant,
    Resolution,
)
from workflows.contracts.states import AdmissionOutcome, CancelAnswer, CreditStatus, Phase
from workflows.definitions import story
from workflows.definitions.course import keep_promise
from workflows.definitions.state import CourseState
from workflows.domain import lifecycle

T = TypeVar("T")


@workflow.defn(name=names.GENERATION_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class GenerationWorkflow:
    """The promise for one operation: delivered and settled, or given back, or in plain sight unknown.

    The course runs in a task of its own that no cancel reaches; a cancel, by whichever way, is a
    wish in the state that the course takes up where that is safe. Handlers only read or set a field.
    There is no execution or run timeout: such a timeout ends a workflow without releasing its hold.
    """

    @workflow.init
    def __init__(self, request: GenerationRequest) -> None:
        self._state = CourseState(request=request)
        self._temporal_cancel_heard = False

    @workflow.run
    async def run(self, _request: GenerationRequest) -> GenerationResult:
        """Keep the promise; fail only when the request is refused, so that it may be tried again.

        Raises:
            ApplicationError: The refusal; `type` is its code.
        """
        result = await self._through_cancels(keep_promise(self._state))
        await self._through_cancels(workflow.wait_condition(workflow.all_handlers_finished))
        if result is not None:
            return result
        refusal = self._admission().refusal
        raise ApplicationError(
            refusal.message if refusal else "refused",
            type=refusal.code.value if refusal else "refused",
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )

    @workflow.update(name=names.ADMIT_UPDATE)
    async def admit(self) -> Admission:
        """What became of the hold; waits for it and takes none itself, so a lost update loses nothing."""
        await workflow.wait_condition(lambda: self._state.admission is not None)
        return self._admission()

    @workflow.update(name=names.CANCEL_UPDATE)
    async def request_cancel(self, request: CancelRequest) -> CancelReply:
        """Ask for a cancel; the answer is `canceled` only when the hold is released."""
        self._take_up(request)
        answer = self._cancel_answer()
        if answer is None:
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self._cancel_answer() is not None,
                    timeout=timeouts.CANCEL_ANSWER,
                    timeout_summary="answer the cancel",
                )
            answer = self._cancel_answer()
        return CancelReply(
            task_id=self._state.request.task_id,
            answer=answer or CancelAnswer.CANCEL_REQUESTED,
            credit_status=self._state.credit_status
            or (CreditStatus.RELEASED if self._refused() else CreditStatus.HELD),
        )

    @workflow.signal(name=names.CANCEL_SIGNAL)
    def cancel(self, request: Any = None) -> None:
        """Ask for a cancel without an answer: an object with `reason`, a bare string, or nothing at all."""
        self._take_up(lifecycle.read_cancel(request))

    @workflow.signal(name=names.ASSIGNED_SIGNAL)
    def assigned(self, lease: LeaseGrant) -> None:
        """A card is offered. It may come twice, or late: accepting is a compare-and-set."""
        self._state.offer = lease

    @workflow.signal(name=names.RESOLVE_SIGNAL)
    def decide(self, request: Any = None) -> None:
        """An operator's decision, without an answer; one that can't be taken is told in the details."""
        resolution = lifecycle.read_resolution(request)
        if isinstance(resolution, str):
            story.tell(self._state, f"a decision was signalled that is none: {resolution}")
            return
        refusal = self._why_not(resolution)
        if refusal is not None:
            story.tell(self._state, f"the decision of {resolution.actor} is refused: {refusal[1]}")
            return
        self._state.resolution = resolution

    @workflow.update(name=names.RESOLVE_UPDATE)
    async def resolve(self, resolution: Resolution) -> Closing:
        """An operator's decision about an unknown outcome; answers once it is committed."""
        self._state.resolution = resolution
        await workflow.wait_condition(lambda: self._state.closing is not None)
        if self._state.closing is None:
            raise AssertionError("waited for a closing that isn't there")
        return self._state.closing

    @resolve.validator
    def check_resolution(self, resolution: Resolution) -> None:
        """Only while nobody knows, only once, and only with a reason."""
        refusal = self._why_not(resolution)
        if refusal is not None:
            raise ApplicationError(refusal[1], type=refusal[0])

    @workflow.query(name=names.STATE_QUERY)
    def state(self) -> GenerationView:
        """Where the generation stands."""
        return self._state.view()

    async def _through_cancels(self, course: Coroutine[Any, Any, T]) -> T:
        """Wait for the course; Temporal's own cancel becomes the same wish as everybody's."""
        task = asyncio.create_task(course)
        while True:
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                reason = workflow.cancellation_reason()
                if reason is None or self._temporal_cancel_heard:
                    raise  # not a cancel of the workflow: it is being evicted from the cache
                self._temporal_cancel_heard = True
                self._take_up(CancelRequest(reason=reason or CancelRequest().reason, actor="temporal"))

    def _take_up(self, request: CancelRequest) -> None:
        """Remember the first cancel that can still be carried out."""
        if self._state.cancel is not None or self._refused():
            return
        answer = self._cancel_answer()
        if answer is None:
            self._state.cancel = request
            story.tell(self._state, f"cancel asked by {request.actor}: {request.reason}")
        else:
            story.tell(self._state, f"cancel asked by {request.actor}, answered {answer.value}")

    def _why_not(self, resolution: Resolution) -> tuple[str, str] | None:
        """Code and sentence of why this decision can't be taken; None when it can."""
        if not resolution.reason.strip() or not resolution.actor.strip():
            return "reason_missing", "a decision needs its reason and its actor"
        closing = self._state.closing
        if closing is not None or self._state.phase is Phase.FINISHED:
            credit = closing.credit_status.value if closing is not None else "over"
            return "already_final", f"the generation is over; its credits are {credit}"
        if self._state.unknown is None:
            return "not_unknown", "the outcome isn't unknown"
        if self._state.resolution is not None:
            return "already_resolved", "it is decided already"
        return None

    def _cancel_answer(self) -> CancelAnswer | None:
        if self._refused():
            return CancelAnswer.NOT_CANCELLABLE
        return lifecycle.cancel_answer(self._state.request, self._state.phase, self._state.ended)

    def _refused(self) -> bool:
        admission = self._state.admission
        if admission is None:
            return False
        return admission.outcome is not AdmissionOutcome.HELD or self._state.is_of_another_body

    def _admission(self) -> Admission:
        if self._state.admission is None:
            raise AssertionError("asked for an admission that isn't there")
        return self._state.admission
