"""What follows from what a run's host said, from a cancel, and from silence. Pure; the workflow obeys it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from workflows.contracts import timeouts
from workflows.contracts.evidence import Source
from workflows.contracts.failures import VERDICTS, Code, Failure
from workflows.contracts.generation import (
    Admission,
    CancelRequest,
    GenerationRequest,
    GenerationResult,
    Resolution,
    RunOutcome,
)
from workflows.contracts.states import CancelAnswer, CreditStatus, Decision, Phase, RunVerdict, Status
from workflows.domain.delivery import NOT_GIVEN, Deliver, collected

PLACEMENTS_MAX = 4
"""A run that its hosts refuse this often is given back: it is the request, or no host can take it."""
PLACEMENT_PAUSE_FIRST = timedelta(seconds=1)
LOOKS_MAX = 600
"""Looks for evidence, two days' worth; about 25 events each keeps a history far below Temporal's 51,200."""
QUESTIONS = {
    Source.HOST: "the host's journal, then its engine's queue and history, for fence {fence}",
    Source.STORE: "the object store, for what was granted under fence {fence}",
}
"""What is asked of whom, for operators."""
REASON_CHARS_MAX = 500

NOT_CANCELLABLE_PHASES = frozenset({Phase.INSPECTING, Phase.KEEPING, Phase.FINISHED})
"""The run is over and its result is being delivered: there is nothing left to stop."""
ON_CARD_PHASES = frozenset({Phase.PLACED, Phase.RUNNING, Phase.RECONCILING})


@dataclass(frozen=True, slots=True)
class PlaceAgain:
    """It is proven that nothing ran: wait for another card, within the deadline.

    Attributes:
        reason: One line for the story.
        queued: True when the ticket is back already, because finding the proof put it there.
    """

    reason: str
    queued: bool = False


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Nothing will be delivered: release the hold and end as `status`."""

    status: Status
    failure: Failure
    actor: str = "workflow"


@dataclass(frozen=True, slots=True)
class SettleAsDecided:
    """An operator decided that an unknown outcome is paid for."""

    actor: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """The engine may or may not have run.

    Attributes:
        reason: Why nobody knows.
        awaiting: Which evidence would decide.
    """

    reason: str
    awaiting: str


Course = Deliver | PlaceAgain | GiveBack | SettleAsDecided | Doubt
"""What a generation does next."""


def after_run(
    outcome: RunOutcome,
    *,
    files_asked: int,
    cancel: CancelRequest | None,
    placements: int,
    was_short: bool = False,
) -> Course:
    """What follows from the host's word.

    Args:
        outcome: The host's word.
        files_asked: How many files the request's contracts ask for.
        cancel: A cancel that is wanted, if any. A finished run beats it.
        placements: How often a host took and refused the work, this time included.
        was_short: Whether memory wasn't enough for it once before.
    """
    if outcome.verdict is RunVerdict.FINISHED:
        delivery = collected(outcome, files_asked)
        return delivery if delivery.files else GiveBack(Status.FAILED, _gave_nothing(delivery))
    if outcome.lost or not outcome.may_have_run:
        return _after_proof(outcome, cancel=cancel, placements=placements)
    if outcome.verdict is RunVerdict.CANCELED:
        return canceled(cancel or CancelRequest(reason="stopped by its host", actor="host"))
    if is_short_of_memory(outcome) and not was_short and cancel is None and placements < PLACEMENTS_MAX:
        return PlaceAgain(reason="memory was not enough; one more card is tried")
    if outcome.verdict is RunVerdict.FAILED:
        return GiveBack(Status.FAILED, outcome.failure or _engine_failed())
    return Doubt(
        reason=outcome.evidence or "the engine took the work and can't say what became of it",
        awaiting="the host's journal and its engine",
    )


def is_short_of_memory(outcome: RunOutcome) -> bool:
    """Whether the run is over because memory was not enough: another card, or an emptier one, may have more."""
    return (
        outcome.verdict is RunVerdict.FAILED
        and outcome.failure is not None
        and outcome.failure.code is Code.OUT_OF_MEMORY
    )


def is_beyond_doubt(outcome: RunOutcome) -> bool:
    """Whether a host's word about a run in doubt needs no second one.

    That it knows of no run, or that the run left nothing, is said from what the host still has. Its journal may
    have been lost right after the delivery: then the results are in the store.
    """
    return outcome.verdict is not RunVerdict.UNKNOWN and outcome.may_have_run and not outcome.lost


def after_silence(reason: str) -> Doubt:
    """What follows when no word came and the order may have been fetched."""
    return Doubt(reason=reason, awaiting="the host: its journal and its engine")


def after_resolution(resolution: Resolution, evidence: Course | None) -> Course:
    """An operator's decision, next to evidence that arrived in the same moment, if any.

    To settle with a finished result at hand is to deliver it, and what is proven to have given nothing isn't
    unknown any more, so that it can't be settled; otherwise the decision stands.
    """
    actor = operator(resolution)
    if resolution.decision is Decision.SETTLE:
        return SettleAsDecided(actor) if evidence is None or isinstance(evidence, Doubt) else evidence
    failure = Failure(
        code=Code.OUTCOME_UNKNOWN, message="The outcome stayed unknown and was released by decision."
    )
    return GiveBack(Status.FAILED, failure, actor)


def operator(resolution: Resolution) -> str:
    """Who decided, as the ledger names him."""
    return f"operator:{resolution.actor}"


def after_resolve_by() -> GiveBack:
    """What a manifest that opts in makes of an outcome still unknown at `resolve_by`: the house's loss."""
    failure = Failure(code=Code.OUTCOME_UNKNOWN, message="The outcome stayed unknown; nothing is charged.")
    return GiveBack(Status.FAILED, failure, "manifest:release_unknown")


def awaits_late(failure: Failure) -> bool:
    """Whether a result is still looked for after a release for this reason."""
    return failure.code is Code.OUTCOME_UNKNOWN


def canceled(cancel: CancelRequest) -> GiveBack:
    """A confirmed cancel."""
    failure = Failure(code=Code.CANCELED, message=f"Canceled: {cancel.reason}")
    return GiveBack(Status.CANCELED, failure, cancel.actor)


def expired() -> GiveBack:
    """No card took it by `expires_at`."""
    failure = Failure(code=Code.EXPIRED, message="No card was free before the request's deadline.")
    return GiveBack(Status.EXPIRED, failure)


def not_judged() -> Failure:
    """The media could not be judged at all, after every try."""
    return Failure(code=Code.MEDIA_VALIDATION_FAILED, message="The result could not be inspected.")


def stoppable(request: GenerationRequest, phase: Phase) -> bool:
    """Whether a cancel can still be taken up in this phase."""
    if phase in NOT_CANCELLABLE_PHASES:
        return False
    return request.model.cancellable or phase not in ON_CARD_PHASES


def cancel_answer(request: GenerationRequest, phase: Phase, ended: Status | None) -> CancelAnswer | None:
    """The honest answer to a cancel, or None while it is still open.

    Args:
        request: What was admitted.
        phase: Where the generation stands.
        ended: How it ended, once its money step is committed.
    """
    if ended is not None:
        return CancelAnswer.CANCELED if ended is Status.CANCELED else CancelAnswer.NOT_CANCELLABLE
    if phase in NOT_CANCELLABLE_PHASES:
        return CancelAnswer.NOT_CANCELLABLE
    return None if stoppable(request, phase) else CancelAnswer.NOT_SUPPORTED


def read_cancel(raw: object) -> CancelRequest:
    """A cancel from whatever a signal carried: a message, an object, a bare string, or nothing.

    A signal whose argument doesn't fit is dropped by the SDK with a log line; a cancel must not be.
    """
    reason: object = raw
    actor: object = None
    if isinstance(raw, CancelRequest):
        reason, actor = raw.reason, raw.actor
    elif isinstance(raw, dict):
        reason, actor = raw.get("reason"), raw.get("actor")
    plain = CancelRequest()
    return CancelRequest(
        reason=str(reason)[:REASON_CHARS_MAX] if reason else plain.reason,
        actor=str(actor)[:REASON_CHARS_MAX] if actor else plain.actor,
    )


def read_resolution(raw: object) -> Resolution | str:
    """An operator's decision from whatever a signal carried; why it is none where it doesn't fit.

    Unlike a cancel it has no defaults: money moves by it, so decision, reason and actor must be said.
    """
    if isinstance(raw, Resolution):
        return raw
    if not isinstance(raw, dict):
        return "it isn't an object with `decision`, `reason` and `actor`"
    words = {name: raw.get(name) for name in ("decision", "reason", "actor")}
    for name, word in words.items():
        if not isinstance(word, str) or not word.strip():
            return f"`{name}` is missing or isn't text"
    decision = str(words["decision"]).strip().lower()
    if decision not in {one.value for one in Decision}:
        return f"`decision` is settle or release, not {decision[:REASON_CHARS_MAX]!r}"
    return Resolution(
        decision=Decision(decision),
        reason=str(words["reason"])[:REASON_CHARS_MAX],
        actor=str(words["actor"])[:REASON_CHARS_MAX],
    )


def already_over(admission: Admission) -> GenerationResult:
    """The result of a repeated operation that ran to its end before; its record in Postgres says more."""
    settled = admission.credit_status is CreditStatus.SETTLED
    return GenerationResult(
        task_id=admission.task_id,
        status=Status.COMPLETED if settled else Status.FAILED,
        credit_status=CreditStatus.SETTLED if settled else CreditStatus.RELEASED,
    )


def placement_pause(placements: int) -> timedelta:
    """How long to wait before a refused generation asks for a card again: 1 s, then doubling."""
    doublings: int = 2 ** (placements - 1)
    return PLACEMENT_PAUSE_FIRST * doublings


def look_pause(look: int) -> timedelta:
    """The pause before the given look for evidence, counted from 1: 5 s, doubling, at most 5 min."""
    factor: int = 2 ** min(look - 1, 16)  # beyond this the bound below holds anyway, and powers stay small
    return min(timeouts.RECONCILE_FIRST * factor, timeouts.RECONCILE_MAX)


def late_look_pause(look: int) -> timedelta:
    """The pause after the given look for a late result, counted from 1: 5 s, doubling, at most 6 h."""
    factor: int = 2 ** min(look - 1, 16)
    return min(timeouts.RECONCILE_FIRST * factor, timeouts.LATE_LOOK_MAX)


def next_look_at(now: datetime, look: int, resolve_by: datetime) -> datetime:
    """When to look next; never past `resolve_by` before that has come, so that it is raised on time."""
    planned = now + look_pause(look)
    return min(planned, resolve_by) if now < resolve_by else planned


def _after_proof(outcome: RunOutcome, *, cancel: CancelRequest | None, placements: int) -> Course:
    if cancel is not None:
        return canceled(cancel)
    failure = outcome.failure or Failure(
        code=Code.SERVICE_UNAVAILABLE, message="The card's host could not take the work."
    )
    if placements < PLACEMENTS_MAX and (outcome.lost or VERDICTS[failure.code].retryable):
        return PlaceAgain(reason=outcome.evidence or failure.message)
    return GiveBack(Status.FAILED, failure)


def _gave_nothing(delivery: Deliver) -> Failure:
    """Of a run without one usable file: the first reason that is known."""
    first = delivery.refused[0] if delivery.refused else None
    if first is None or first.message == NOT_GIVEN:
        return Failure(code=Code.MEDIA_VALIDATION_FAILED, message="The engine gave no file.")
    return Failure(code=first.code, message=first.message)


def _engine_failed() -> Failure:
    return Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
