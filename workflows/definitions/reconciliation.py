"""Looking for evidence when nobody knows whether a run happened."""

from datetime import datetime, timedelta

from temporalio import workflow

from workflows.contracts.generation import MarkUnknown, Resolution, RunOrder
from workflows.contracts.states import Decision, Phase
from workflows.definitions import steps, story
from workflows.definitions.looking import look as look_once
from workflows.definitions.looking import record_decision
from workflows.definitions.state import CourseState, Unknown
from workflows.domain import lifecycle


async def reconcile(state: CourseState, doubt: lifecycle.Doubt, order: RunOrder) -> lifecycle.Course:
    """Look again and again until evidence, an operator or the manifest decides. Never by time alone.

    A decision to settle has one look before it: where the result can be had, it is delivered and not only paid.

    Args:
        state: The generation's state; its credits show as unknown from here on.
        doubt: Why nobody knows.
        order: The run in doubt.

    Returns:
        What follows; never a `Doubt`.
    """
    since = workflow.now()
    resolve_by = since + timedelta(seconds=state.request.model.resolve_by_s)
    look_order = order.model_copy(update={"attach_only": True, "ordered_at": state.request.created_at})
    for look in range(1, lifecycle.LOOKS_MAX + 1):
        await _show(state, doubt, since=since, resolve_by=resolve_by, look=look)
        await _pause_until(state, lifecycle.next_look_at(workflow.now(), look, resolve_by))
        resolution = _resolution(state)
        if resolution is not None and resolution.decision is Decision.RELEASE:
            return await _decided(state, look_order, resolution, None)
        if resolution is None and state.request.model.release_unknown and workflow.now() >= resolve_by:
            return _leave(state, lifecycle.after_resolve_by())
        course = await look_once(state, look_order)
        if (resolution := _resolution(state)) is not None:
            return await _decided(state, look_order, resolution, course)
        if isinstance(course, lifecycle.Doubt):
            doubt = course
        elif course is not None:
            return _leave(state, course)
    story.tell(state, "looking for evidence ended; an operator has to decide")
    while (resolution := _resolution(state)) is None:
        await workflow.wait_condition(lambda: state.resolution is not None)
    settles = resolution.decision is Decision.SETTLE
    evidence = await look_once(state, look_order) if settles else None
    return await _decided(state, look_order, resolution, evidence)


async def _show(
    state: CourseState, doubt: lifecycle.Doubt, *, since: datetime, resolve_by: datetime, look: int
) -> None:
    first = state.unknown is None
    raised = workflow.now() >= resolve_by
    newly_raised = raised and state.unknown is not None and not state.unknown.raised
    state.unknown = Unknown(
        since=since,
        awaiting=doubt.awaiting,
        next_look_at=lifecycle.next_look_at(workflow.now(), look, resolve_by),
        resolve_by=resolve_by,
        raised=raised,
        reason=doubt.reason,
    )
    state.was_unknown = True
    if first:
        story.enter(state, Phase.RECONCILING, f"outcome unknown: {doubt.reason}")
    elif newly_raised:
        story.tell(state, "still unknown at its date: raised to an operator")
    else:
        story.show(state)
    await steps.mark_unknown(
        MarkUnknown(
            task_id=state.request.task_id,
            since=since,
            reason=doubt.reason,
            awaiting=doubt.awaiting,
            next_look_at=state.unknown.next_look_at,
            resolve_by=resolve_by,
            raised=raised,
        )
    )


async def _pause_until(state: CourseState, moment: datetime) -> None:
    pause = moment - workflow.now()
    if pause <= timedelta(0):
        return
    try:
        await workflow.wait_condition(
            lambda: state.resolution is not None, timeout=pause, timeout_summary="next look for evidence"
        )
    except TimeoutError:
        return


def _resolution(state: CourseState) -> Resolution | None:
    """The decision as it stands now: handlers set it while the course waits."""
    return state.resolution


async def _decided(
    state: CourseState, order: RunOrder, resolution: Resolution, evidence: lifecycle.Course | None
) -> lifecycle.Course:
    await record_decision(state, order)
    story.tell(state, f"operator {resolution.actor} decided: {resolution.decision.value}. {resolution.reason}")
    return _leave(state, lifecycle.after_resolution(resolution, evidence))


def _leave(state: CourseState, course: lifecycle.Course) -> lifecycle.Course:
    state.unknown = None
    if isinstance(course, lifecycle.PlaceAgain):
        state.resolution = None  # what was decided about this doubt decides no later one
    return course
