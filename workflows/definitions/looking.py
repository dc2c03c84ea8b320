"""One look for evidence about a run: its host first, then the object store. Each answer is recorded."""

from temporalio import workflow

from workflows.contracts.evidence import Finding, Look, Source, StoreAnswer, StoreQuestion
from workflows.contracts.generation import RunOrder, RunOutcome
from workflows.contracts.states import RunVerdict
from workflows.definitions import steps, story
from workflows.definitions.following import follow
from workflows.definitions.state import CourseState
from workflows.domain import lifecycle
from workflows.domain.delivery import Deliver

ASK_THE_STORE = "ask-the-store"
"""Courses that began before know the host's word only, and record no look."""

_FINDINGS = {
    RunVerdict.FINISHED: Finding.FINISHED,
    RunVerdict.FAILED: Finding.FAILED,
    RunVerdict.CANCELED: Finding.CANCELED,
    RunVerdict.UNKNOWN: Finding.UNKNOWN,
}


async def look(state: CourseState, order: RunOrder, *, may_stop: bool = True) -> lifecycle.Course | None:
    """What follows from what is found now; None when nobody gave a word, so that the known doubt stands.

    Args:
        state: The generation's state.
        order: The run in doubt; only ever attached to.
        may_stop: Whether a cancel, or a decision to release, is carried to a run that is still going on.
    """
    outcome = await follow(state, order, may_stop=may_stop)
    course = _read(state, order, outcome)
    await _record(state, order, Source.HOST, _of_host(outcome), outcome.evidence if outcome else "no answer came")
    if outcome is not None and lifecycle.is_beyond_doubt(outcome):
        return course
    return await _in_store(state, order) or course


async def record_decision(state: CourseState, order: RunOrder) -> None:
    """Record an operator's decision among the evidence, whatever is booked in the end."""
    resolution = state.resolution
    if resolution is not None:
        said = f"{resolution.decision.value}: {resolution.reason}"
        await _record(state, order, Source.OPERATOR, Finding.DECIDED, said, asked=resolution.actor)


async def _in_store(state: CourseState, order: RunOrder) -> Deliver | None:
    """The delivery of what the host left in the store, where that is everything that was asked for."""
    if not workflow.patched(ASK_THE_STORE):
        return None
    answer = await steps.look_in_store(
        StoreQuestion(task_id=order.task_id, lease_id=order.lease_id, outputs=len(state.request.outputs))
    )
    story.tell(state, f"looked into the store: {answer.said if answer else 'no answer came'}")
    await _record(state, order, Source.STORE, _of_store(answer), answer.said if answer else "no answer came")
    return Deliver(files=answer.files) if answer is not None and answer.files else None


def _read(state: CourseState, order: RunOrder, outcome: RunOutcome | None) -> lifecycle.Course | None:
    if outcome is None:
        story.tell(state, "looked: no word from the host")
        return None
    story.tell(state, f"looked: {outcome.verdict.value}. {outcome.evidence}")
    return read_outcome(state, order, outcome)


def read_outcome(state: CourseState, order: RunOrder, outcome: RunOutcome) -> lifecycle.Course:
    """What follows from a host's word. Where memory was not enough one more run is tried, under another lease."""
    if lifecycle.is_short_of_memory(outcome) and state.short_under is None:
        state.short_under = order.lease_id
    return lifecycle.after_run(
        outcome,
        files_asked=len(state.request.outputs),
        cancel=state.cancel,
        placements=state.placements,
        was_short=state.short_under not in (None, order.lease_id),
    )


async def _record(
    state: CourseState, order: RunOrder, source: Source, finding: Finding, said: str, *, asked: str | None = None
) -> None:
    if not workflow.patched(ASK_THE_STORE):
        return
    if source is not Source.OPERATOR:
        state.looks += 1
    await steps.record_look(
        Look(
            task_id=order.task_id,
            look_id=f"{workflow.info().run_id}:{source.value}:{state.looks}",
            source=source,
            asked=asked or lifecycle.QUESTIONS[source].format(fence=order.fence),
            finding=finding,
            said=said,
            lease_id=order.lease_id,
            fence=order.fence,
        )
    )


def _of_host(outcome: RunOutcome | None) -> Finding:
    return Finding.NO_WORD if outcome is None else _FINDINGS[outcome.verdict]


def _of_store(answer: StoreAnswer | None) -> Finding:
    if answer is None:
        return Finding.NO_WORD
    return Finding.FINISHED if answer.files else Finding.UNKNOWN
