"""A host's words about a run that didn't finish."""

from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import RunOutcome
from workflows.contracts.states import RunVerdict


def refused_here(message: str, evidence: str) -> RunOutcome:
    """Proven not to have run; another card may."""
    return RunOutcome(
        verdict=RunVerdict.FAILED,
        failure=Failure(code=Code.SERVICE_UNAVAILABLE, message=message),
        may_have_run=False,
        evidence=evidence,
    )


def superseded(reason: str, *, ran: bool) -> RunOutcome:
    """The lease isn't this host's any more: nothing is delivered."""
    return RunOutcome(
        verdict=RunVerdict.FAILED,
        failure=Failure(code=Code.SERVICE_UNAVAILABLE, message="The lease was superseded."),
        may_have_run=ran,
        evidence=f"stale lease: {reason}",
    )


def failed(message: str, evidence: str, *, ran: bool) -> RunOutcome:
    """A definite end without a result. `ran` is False only with proof that no engine began it."""
    return RunOutcome(
        verdict=RunVerdict.FAILED,
        failure=Failure(code=Code.UPSTREAM_FAILED, message=message),
        may_have_run=ran,
        evidence=evidence,
    )


def lost(evidence: str) -> RunOutcome:
    """It began and is over without a result, through no fault of the request: another run may do better."""
    return failed("The engine failed.", evidence, ran=True).model_copy(update={"lost": True})


def unknown(evidence: str) -> RunOutcome:
    """Evidence ends here."""
    return RunOutcome(
        verdict=RunVerdict.UNKNOWN,
        failure=Failure(code=Code.OUTCOME_UNKNOWN, message="It isn't known whether the engine ran."),
        evidence=evidence,
    )
