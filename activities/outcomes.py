"""A host's words about a run."""

from collections.abc import Sequence

from infra.engines.port import Collection
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import RunOutcome
from workflows.contracts.media import BlobRef, RefusedOutput
from workflows.contracts.states import RunVerdict


def finished(
    stored: Sequence[tuple[int, BlobRef]], collection: Collection, *, engine_s: float | None, left_out: int
) -> RunOutcome:
    """It ended with these files, each with the place of its output; others may be missing or unusable.

    Args:
        stored: In the order asked for.
        collection: What the engine gave.
        engine_s: Seconds it worked, where it said so.
        left_out: Files beyond those asked for, which weren't stored.
    """
    places = tuple(index for index, _ in stored)
    notes = [f"the engine finished in {engine_s or 0:.1f} s"]
    if collection.unusable:
        notes.append(f"{len(collection.unusable)} file(s) aren't what it announced")
    if left_out:
        notes.append(f"{left_out} file(s) more than asked for were left out")
    return RunOutcome(
        verdict=RunVerdict.FINISHED,
        files=tuple(blob for _, blob in stored),
        indices=() if places == tuple(range(len(places))) else places,
        refused=tuple(
            RefusedOutput(
                index=index, code=Code.UPSTREAM_FAILED, message="The engine's file is not what it announced."
            )
            for index in collection.unusable
        ),
        engine_s=engine_s,
        evidence="; ".join(notes),
    )


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
