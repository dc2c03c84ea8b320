"""After a release without an outcome: a result that is found within a bound is delivered, free of charge."""

from datetime import timedelta

from temporalio import workflow

from workflows.contracts.evidence import LateStep
from workflows.contracts.generation import GenerationResult, InspectOrder, KeepOrder, LeaseGrant, RunOrder
from workflows.contracts.media import Artifact
from workflows.contracts.states import CreditStatus, Phase, Status
from workflows.definitions import steps, story
from workflows.definitions.looking import look
from workflows.definitions.state import CourseState, Late
from workflows.domain import delivery as delivering
from workflows.domain import lifecycle
from workflows.domain.delivery import Deliver

LATE_LOOK = "late-look"
"""Courses that began before end with their release."""


async def look_late(state: CourseState, result: GenerationResult) -> GenerationResult:
    """Look on where the release began a search; the result as it is then.

    The credits are back and stay so, and nothing here can be canceled or decided: for its caller the generation
    is over. A run that goes on isn't stopped; its result may still be wanted.
    """
    if result.credit_status is not CreditStatus.RELEASED or not workflow.patched(LATE_LOOK):
        return result
    step = LateStep(task_id=state.request.task_id)
    search = await steps.begin_late_look(step)
    if search is None:
        return result
    order = _order(state, search.lease)
    state.late = Late(until=search.until, next_look_at=search.next_look_at)
    story.tell(state, f"still looking for a late result until {search.until:%Y-%m-%d %H:%M}")
    for number in range(1, lifecycle.LOOKS_MAX + 1):
        course = await look(state, order, may_stop=False)
        if isinstance(course, Deliver):
            return await _deliver(state, course, result)
        if course is not None and not isinstance(course, lifecycle.Doubt):
            return await _end(state, result, "gone", "it is proven that no result will come")
        if not await _pause(state, number):
            break
    return await _end(state, result, "not_found", "no result was found in time")


async def _pause(state: CourseState, number: int) -> bool:
    """Wait for the next look; False when the search is over before it."""
    late = state.late
    if late is None:
        raise AssertionError("a search without its bound")
    late.next_look_at = min(workflow.now() + lifecycle.late_look_pause(number), late.until)
    pause = late.next_look_at - workflow.now()
    if pause <= timedelta(0):
        return False
    await steps.plan_late_look(LateStep(task_id=state.request.task_id, next_look_at=late.next_look_at))
    story.show(state)
    await workflow.sleep(pause, summary="next look for a late result")
    return True


async def _deliver(state: CourseState, delivery: Deliver, result: GenerationResult) -> GenerationResult:
    found = await _keep(state, delivery)
    if found is None:
        return await _end(state, result, "spoiled", "what was found is not as promised")
    artifacts, kept = found
    closing = await steps.deliver_late(LateStep(task_id=state.request.task_id))
    state.closing = closing
    state.late = None
    if closing.status is not Status.COMPLETED:
        return result
    story.enter(state, Phase.FINISHED, f"{len(artifacts)} late result(s) delivered free of charge")
    return GenerationResult(
        task_id=state.request.task_id,
        status=closing.status,
        credit_status=closing.credit_status,
        charged_credits=0,
        artifacts=artifacts,
        partial=delivering.partial(state.request, kept),
    )


async def _keep(state: CourseState, delivery: Deliver) -> tuple[tuple[Artifact, ...], Deliver] | None:
    """Judge and keep, as before a settlement; None when nothing is as promised."""
    request = state.request
    inspection = await steps.inspect(
        InspectOrder(task_id=request.task_id, files=delivery.files, contracts=delivery.contracts(request.outputs))
    )
    if inspection is None or not inspection.artifacts:
        return None
    artifacts, kept = delivering.judged(delivery, inspection)
    await steps.keep(
        KeepOrder(
            task_id=request.task_id, account_id=request.account_id, artifacts=artifacts, refused=kept.refused
        )
    )
    return artifacts, kept


async def _end(state: CourseState, result: GenerationResult, ending: str, line: str) -> GenerationResult:
    await steps.end_late_look(LateStep(task_id=state.request.task_id, ending=ending))
    state.late = None
    story.tell(state, line)
    return result


def _order(state: CourseState, lease: LeaseGrant) -> RunOrder:
    return RunOrder(
        task_id=state.request.task_id,
        lease_id=lease.lease_id,
        card_uuid=lease.card_uuid,
        fence=lease.fence,
        attach_only=True,
        ordered_at=state.request.created_at,
    )
