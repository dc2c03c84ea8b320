"""What follows from a host's word, from a cancel, and from silence."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.flows.world import finished, make_request
from workflows.contracts import timeouts
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Admission, CancelRequest, Resolution, RunOutcome
from workflows.contracts.media import RefusedOutput
from workflows.contracts.states import (
    AdmissionOutcome,
    CancelAnswer,
    CreditStatus,
    Decision,
    Phase,
    RunVerdict,
    Status,
)
from workflows.domain import lifecycle
from workflows.domain.delivery import Deliver
from workflows.domain.lifecycle import Doubt, GiveBack, PlaceAgain, SettleAsDecided

ASKED = CancelRequest(reason="enough", actor="member-1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
AWAY = Failure(code=Code.SERVICE_UNAVAILABLE, message="The journal can't be written.")


def follows(
    outcome: RunOutcome, *, files_asked: int = 1, cancel: CancelRequest | None = None, placements: int = 1
) -> lifecycle.Course:
    return lifecycle.after_run(outcome, files_asked=files_asked, cancel=cancel, placements=placements)


@pytest.mark.parametrize("cancel", [None, ASKED])
def test_a_finished_run_is_delivered_even_when_a_cancel_was_asked(cancel: CancelRequest | None) -> None:
    assert follows(finished(), cancel=cancel) == Deliver(finished().files)


def test_too_few_files_are_delivered_as_far_as_they_go() -> None:
    course = follows(finished(), files_asked=2)
    assert isinstance(course, Deliver)
    assert (course.files, course.indices) == (finished().files, (0,))
    assert [(one.index, one.code) for one in course.refused] == [(1, Code.MEDIA_VALIDATION_FAILED)]


def test_a_run_without_a_file_is_given_back() -> None:
    nothing = finished().model_copy(update={"files": ()})
    course = follows(nothing, files_asked=2)
    assert isinstance(course, GiveBack)
    assert course.failure.code is Code.MEDIA_VALIDATION_FAILED


def test_a_run_whose_files_are_all_unusable_is_given_back_with_the_reason() -> None:
    reason = RefusedOutput(index=0, code=Code.UPSTREAM_FAILED, message="Not what was announced.")
    course = follows(finished().model_copy(update={"files": (), "refused": (reason,)}))
    assert isinstance(course, GiveBack)
    assert (course.failure.code, course.failure.message) == (reason.code, reason.message)


@pytest.mark.parametrize("cancel", [None, ASKED])
def test_a_definite_failure_gives_back(cancel: CancelRequest | None) -> None:
    course = follows(RunOutcome(verdict=RunVerdict.FAILED, failure=BROKEN), cancel=cancel)
    assert course == GiveBack(Status.FAILED, BROKEN)


@pytest.mark.parametrize("cancel", [None, ASKED])
def test_no_word_but_unknown_moves_no_money_whatever_was_asked(cancel: CancelRequest | None) -> None:
    assert isinstance(follows(RunOutcome(verdict=RunVerdict.UNKNOWN), cancel=cancel), Doubt)


def test_a_run_lost_with_its_engine_runs_again_but_not_for_ever() -> None:
    lost = RunOutcome(verdict=RunVerdict.FAILED, failure=BROKEN, lost=True)
    assert isinstance(follows(lost), PlaceAgain)
    assert follows(lost, cancel=ASKED) == lifecycle.canceled(ASKED), "it is proven to have stopped"
    assert follows(lost, placements=lifecycle.PLACEMENTS_MAX) == GiveBack(Status.FAILED, BROKEN)


@pytest.mark.parametrize("verdict", [RunVerdict.FAILED, RunVerdict.UNKNOWN, RunVerdict.CANCELED])
def test_proof_that_nothing_ran_places_again(verdict: RunVerdict) -> None:
    assert isinstance(follows(RunOutcome(verdict=verdict, may_have_run=False, failure=AWAY)), PlaceAgain)


def test_proof_that_nothing_ran_confirms_a_cancel() -> None:
    course = follows(RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, failure=AWAY), cancel=ASKED)
    assert isinstance(course, GiveBack)
    assert (course.status, course.actor) == (Status.CANCELED, "member-1")


def test_placing_again_has_a_bound() -> None:
    outcome = RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, failure=AWAY)
    assert isinstance(follows(outcome, placements=lifecycle.PLACEMENTS_MAX - 1), PlaceAgain)
    assert follows(outcome, placements=lifecycle.PLACEMENTS_MAX) == GiveBack(Status.FAILED, AWAY)


def test_a_refusal_that_no_other_card_would_cure_is_given_back_at_once() -> None:
    outcome = RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, failure=BROKEN)
    assert follows(outcome) == GiveBack(Status.FAILED, BROKEN)


def test_an_operators_settle_yields_to_what_became_known_in_the_same_moment() -> None:
    settle = Resolution(decision=Decision.SETTLE, reason="seen in its log", actor="ana")
    for evidence in (Deliver(finished().files), GiveBack(Status.FAILED, BROKEN), PlaceAgain("never ran")):
        assert lifecycle.after_resolution(settle, evidence) == evidence
    for nothing in (None, Doubt("r", "a")):
        assert lifecycle.after_resolution(settle, nothing) == SettleAsDecided("operator:ana")


@pytest.mark.parametrize("evidence", [None, Deliver(finished().files), Doubt("r", "a")])
def test_an_operators_release_stands(evidence: lifecycle.Course | None) -> None:
    course = lifecycle.after_resolution(
        Resolution(decision=Decision.RELEASE, reason="no job there", actor="ana"), evidence
    )
    assert isinstance(course, GiveBack)
    assert course.actor == "operator:ana"


@pytest.mark.parametrize(
    ("phase", "cancellable", "ended", "answer"),
    [
        (Phase.WAITING, True, None, None),
        (Phase.WAITING, False, None, None),
        (Phase.RUNNING, True, None, None),
        (Phase.RUNNING, False, None, CancelAnswer.NOT_SUPPORTED),
        (Phase.RECONCILING, False, None, CancelAnswer.NOT_SUPPORTED),
        (Phase.INSPECTING, True, None, CancelAnswer.NOT_CANCELLABLE),
        (Phase.KEEPING, True, None, CancelAnswer.NOT_CANCELLABLE),
        (Phase.FINISHED, True, Status.CANCELED, CancelAnswer.CANCELED),
        (Phase.WAITING, True, Status.CANCELED, CancelAnswer.CANCELED),
        (Phase.FINISHED, True, Status.COMPLETED, CancelAnswer.NOT_CANCELLABLE),
        (Phase.FINISHED, True, Status.FAILED, CancelAnswer.NOT_CANCELLABLE),
        (Phase.FINISHED, False, Status.EXPIRED, CancelAnswer.NOT_CANCELLABLE),
    ],
)
def test_a_cancel_is_answered_honestly(
    phase: Phase, cancellable: bool, ended: Status | None, answer: CancelAnswer | None
) -> None:
    request = make_request("a", "o", cancellable=cancellable, waits=timedelta(minutes=1))
    assert lifecycle.cancel_answer(request, phase, ended) is answer


@pytest.mark.parametrize(
    ("raw", "reason", "actor"),
    [
        (None, "no reason given", "signal"),
        ("", "no reason given", "signal"),
        ("maintenance", "maintenance", "signal"),
        ({"reason": "maintenance"}, "maintenance", "signal"),
        ({"reason": "r", "actor": "ana"}, "r", "ana"),
        ({"actor": "ana"}, "no reason given", "ana"),
        ({"something": 1}, "no reason given", "signal"),
        (["a"], "['a']", "signal"),
        (7, "7", "signal"),
        ("x" * 10_000, "x" * lifecycle.REASON_CHARS_MAX, "signal"),
        (ASKED, "enough", "member-1"),
    ],
)
def test_a_cancel_is_read_from_whatever_came(raw: object, reason: str, actor: str) -> None:
    assert lifecycle.read_cancel(raw) == CancelRequest(reason=reason, actor=actor)


def test_looks_for_evidence_back_off_to_their_bound() -> None:
    pauses = [lifecycle.look_pause(look) for look in range(1, lifecycle.LOOKS_MAX + 1)]
    assert pauses[0] == timeouts.RECONCILE_FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == timeouts.RECONCILE_MAX


def test_no_look_oversleeps_the_date_on_which_it_is_raised() -> None:
    resolve_by = NOW + timedelta(seconds=90)
    assert lifecycle.next_look_at(NOW, 20, resolve_by) == resolve_by
    assert lifecycle.next_look_at(resolve_by, 20, resolve_by) == resolve_by + timeouts.RECONCILE_MAX


@pytest.mark.parametrize(
    ("credits", "status"),
    [(CreditStatus.SETTLED, Status.COMPLETED), (CreditStatus.RELEASED, Status.FAILED)],
)
def test_an_operation_that_is_over_answers_how_its_credits_went(credits: CreditStatus, status: Status) -> None:  # noqa: A002  # the ledger's own word
    admission = Admission(
        task_id="gen_x", outcome=AdmissionOutcome.FINISHED, fingerprint="f", credit_status=credits
    )
    result = lifecycle.already_over(admission)
    assert (result.status, result.credit_status) == (status, credits)


SHORT = RunOutcome(
    verdict=RunVerdict.FAILED, failure=Failure(code=Code.OUT_OF_MEMORY, message="The engine ran out of memory.")
)


def test_memory_that_was_not_enough_is_tried_on_one_more_card_and_no_more() -> None:
    def course(**more: bool) -> lifecycle.Course:
        return lifecycle.after_run(SHORT, files_asked=1, cancel=None, placements=1, **more)

    assert isinstance(course(), PlaceAgain)
    again = course(was_short=True)
    assert isinstance(again, GiveBack)
    assert again.failure.code is Code.OUT_OF_MEMORY


def test_memory_that_was_not_enough_is_not_tried_again_for_who_canceled() -> None:
    assert isinstance(follows(SHORT, cancel=ASKED), GiveBack)
    assert isinstance(follows(SHORT, placements=lifecycle.PLACEMENTS_MAX), GiveBack)
