"""A generation's course, step by step: hold, place, run, deliver or give back."""

import contextlib
from datetime import timedelta

from temporalio import workflow

from workflows.contracts.evidence import Resolve
from workflows.contracts.generation import (
    AcceptLease,
    Admission,
    Advance,
    Closing,
    GenerationResult,
    InspectOrder,
    KeepOrder,
    LeaseGrant,
    Release,
    Requeue,
    Resolution,
    RunOrder,
    Settle,
)
from workflows.contracts.media import Artifact
from workflows.contracts.states import AdmissionOutcome, Decision, Phase, Status
from workflows.definitions import steps, story
from workflows.definitions.following import follow
from workflows.definitions.late import look_late
from workflows.definitions.looking import read_outcome
from workflows.definitions.reconciliation import reconcile
from workflows.definitions.state import CourseState
from workflows.domain import delivery as delivering
from workflows.domain import lifecycle
from workflows.domain.delivery import Deliver

RECORD_THE_ACT = "record-the-act"
"""Courses that began before book a decision without the record of the act."""


async def keep_promise(state: CourseState) -> GenerationResult | None:
    """Hold, place, run; then deliver and settle, or give back. None when nothing was held for this request."""
    admission = await hold(state)
    if admission.outcome is AdmissionOutcome.REFUSED or state.is_of_another_body:
        return None
    if admission.outcome is AdmissionOutcome.FINISHED:
        return await look_late(state, lifecycle.already_over(admission))
    before = admission.lease
    course = (
        await look_back(state, before) if before is not None and not before.accepted else await next_run(state)
    )
    while True:
        match course:
            case lifecycle.PlaceAgain():
                await wait_again(state, course)
                course = await next_run(state)
            case Deliver():
                return await deliver(state, course)
            case lifecycle.SettleAsDecided(actor):
                return await settle(state, state.request.price_credits, actor)
            case lifecycle.GiveBack(failure=failure):
                result = await give_back(state, course)
                return await look_late(state, result) if lifecycle.awaits_late(failure) else result
            case lifecycle.Doubt():
                raise AssertionError("a run's course was left in doubt")


async def hold(state: CourseState) -> Admission:
    """Take the hold; with it may come a card."""
    admission = await steps.admit(state.request)
    admission = admission.model_copy(update={"created_at": state.request.created_at})
    state.admission = admission
    state.lease = admission.lease
    if admission.outcome is AdmissionOutcome.REFUSED:
        story.tell(state, f"refused: {admission.refusal.code.value if admission.refusal else 'no reason given'}")
    elif state.is_of_another_body:
        story.tell(state, "the operation's credits are held for another body")
    elif admission.outcome is AdmissionOutcome.FINISHED:
        state.phase = Phase.FINISHED
        story.tell(state, "the same operation ran to its end before")
    else:
        state.phase = Phase.PLACED if state.lease else Phase.WAITING
        story.tell(state, f"{state.request.price_credits} credits held, {admission.balance_credits} available")
    return admission


async def place(state: CourseState) -> LeaseGrant | lifecycle.GiveBack:
    """Have a card, or sleep until one is assigned, a cancel comes, or the deadline passes.

    A sleeping generation holds no slot and no thread, and asks nobody.
    """
    if state.lease is None:
        story.enter(state, Phase.WAITING, "waiting for a card")
    while True:
        if state.cancel is not None:
            return lifecycle.canceled(state.cancel)
        if state.lease is not None:
            return state.lease
        left = state.request.expires_at - workflow.now()
        if left <= timedelta(0):
            return lifecycle.expired()  # also with an offer at hand: nothing starts after the deadline
        if state.offer is not None:
            await _accept(state)
            continue
        try:
            await workflow.wait_condition(
                lambda: state.offer is not None or state.cancel is not None,
                timeout=left,
                timeout_summary="expires",
            )
        except TimeoutError:
            return lifecycle.expired()


async def next_run(state: CourseState) -> lifecycle.Course:
    """Have a card and run on it; or what became of waiting for one."""
    placed = await place(state)
    return placed if isinstance(placed, lifecycle.GiveBack) else await run(state, placed)


async def look_back(state: CourseState, lease: LeaseGrant) -> lifecycle.Course:
    """Of a generation whose workflow was lost: what became of its run under an earlier lease."""
    state.placements += 1
    order = RunOrder(
        task_id=state.request.task_id, lease_id=lease.lease_id, card_uuid=lease.card_uuid, fence=lease.fence
    )
    return await reconcile(state, lifecycle.after_silence("the course was lost and is taken up again"), order)


async def run(state: CourseState, lease: LeaseGrant) -> lifecycle.Course:
    """Run on the card and say what follows; a doubt is looked into until it is none."""
    state.placements += 1
    order = RunOrder(
        task_id=state.request.task_id, lease_id=lease.lease_id, card_uuid=lease.card_uuid, fence=lease.fence
    )
    story.enter(state, Phase.RUNNING, f"given to {lease.card_label}, fence {lease.fence}")
    outcome = await follow(state, order)
    if outcome is None:
        if await steps.requeue(Requeue(task_id=order.task_id, lease=lease)):
            state.lease = None
            return lifecycle.PlaceAgain(f"{lease.card_label} never fetched the order", queued=True)
        return await reconcile(state, lifecycle.after_silence(f"no word from {lease.card_label}'s host"), order)
    course = read_outcome(state, order, outcome)
    story.tell(state, f"{lease.card_label} says {outcome.verdict.value}. {outcome.evidence}")
    return await reconcile(state, course, order) if isinstance(course, lifecycle.Doubt) else course


async def wait_again(state: CourseState, course: lifecycle.PlaceAgain) -> None:
    """Go back to the queue. The refused card is kept for the pause, so that it isn't given out at once."""
    story.tell(state, f"placed again: {course.reason}")
    if course.queued or state.lease is None:
        return
    with contextlib.suppress(TimeoutError):
        await workflow.wait_condition(
            lambda: state.cancel is not None,
            timeout=lifecycle.placement_pause(state.placements),
            timeout_summary="before asking for another card",
        )
    await steps.requeue(Requeue(task_id=state.request.task_id, lease=state.lease, never_ran=True))
    state.lease = None


async def deliver(state: CourseState, delivery: Deliver) -> GenerationResult:
    """Judge what the engine made, keep what is good, and only then let the money move: for that alone."""
    found = await judge_and_keep(state, delivery)
    if isinstance(found, lifecycle.GiveBack):
        return await give_back(state, found)
    artifacts, kept = found
    result = await settle(state, delivering.charge(state.request, kept.places), "workflow", artifacts)
    if result.status is not Status.COMPLETED:
        return result
    return result.model_copy(update={"partial": delivering.partial(state.request, kept)})


async def judge_and_keep(
    state: CourseState, delivery: Deliver
) -> tuple[tuple[Artifact, ...], Deliver] | lifecycle.GiveBack:
    """The artifacts that are kept now, with the delivery of these alone; or why there is none."""
    request = state.request
    story.enter(state, Phase.INSPECTING, "inspecting the result")
    note = f"{delivery.surplus} file(s) more than asked for are left out" if delivery.surplus else ""
    if note:
        story.tell(state, note)
    await steps.advance(Advance(task_id=request.task_id, phase=Phase.INSPECTING, note=note))
    inspection = await steps.inspect(
        InspectOrder(task_id=request.task_id, files=delivery.files, contracts=delivery.contracts(request.outputs))
    )
    if inspection is None or not inspection.artifacts:
        failure = inspection.failure if inspection else None
        return lifecycle.GiveBack(Status.FAILED, failure or lifecycle.not_judged())
    artifacts, kept = delivering.judged(delivery, inspection)
    story.enter(state, Phase.KEEPING, delivering.summary(request, kept))
    await steps.keep(
        KeepOrder(
            task_id=request.task_id, account_id=request.account_id, artifacts=artifacts, refused=kept.refused
        )
    )
    return artifacts, kept


async def settle(
    state: CourseState, price: int, actor: str, artifacts: tuple[Artifact, ...] = ()
) -> GenerationResult:
    """Pay for what was delivered and end."""
    order = Settle(
        task_id=state.request.task_id,
        credits=price,
        lease_id=state.lease.lease_id if state.lease else None,
        actor=actor,
    )
    decided = _booked_as_decided(state, Decision.SETTLE)
    closing = (
        await steps.settle(order)
        if decided is None
        else await steps.resolve(
            Resolve(
                task_id=order.task_id,
                credits=price,
                status=Status.COMPLETED,
                failure=None,
                reason=decided.reason,
                actor=lifecycle.operator(decided),
            )
        )
    )
    return _end(state, closing, artifacts=artifacts)


async def give_back(state: CourseState, course: lifecycle.GiveBack) -> GenerationResult:
    """Release the hold and end."""
    order = Release(
        task_id=state.request.task_id,
        status=course.status,
        failure=course.failure,
        lease_id=state.lease.lease_id if state.lease else None,
        actor=course.actor,
    )
    decided = _booked_as_decided(state, Decision.RELEASE)
    closing = (
        await steps.release(order)
        if decided is None
        else await steps.resolve(
            Resolve(
                task_id=order.task_id,
                credits=None,
                status=course.status,
                failure=course.failure,
                reason=decided.reason,
                actor=course.actor,
            )
        )
    )
    result = _end(state, closing)
    return result if closing.status is Status.COMPLETED else result.model_copy(update={"failure": course.failure})


def _booked_as_decided(state: CourseState, decision: Decision) -> Resolution | None:
    """The operator's decision, where what is booked now is what he decided: then his act is recorded with it."""
    resolution = state.resolution
    if resolution is None or resolution.decision is not decision or not workflow.patched(RECORD_THE_ACT):
        return None
    return resolution


async def _accept(state: CourseState) -> None:
    offer = state.offer
    state.offer = None
    if offer is None:
        return
    if offer.accepted or await steps.accept_lease(AcceptLease(task_id=state.request.task_id, lease=offer)):
        state.lease = offer
        state.phase = Phase.PLACED
        story.tell(state, f"{offer.card_label} accepted")
    else:
        story.tell(state, f"the offer of {offer.card_label} had lapsed")


def _end(state: CourseState, closing: Closing, artifacts: tuple[Artifact, ...] = ()) -> GenerationResult:
    """The result as the money step committed it, which is the authority."""
    state.closing = closing
    completed = closing.status is Status.COMPLETED
    charged = closing.charged_credits
    if charged is None:
        charged = state.request.price_credits if completed else 0
    story.enter(
        state,
        Phase.FINISHED,
        f"{closing.status.value}: credits {closing.credit_status.value}, {closing.balance_credits} available",
    )
    return GenerationResult(
        task_id=state.request.task_id,
        status=closing.status,
        credit_status=closing.credit_status,
        charged_credits=charged,
        artifacts=artifacts if completed else (),
    )
