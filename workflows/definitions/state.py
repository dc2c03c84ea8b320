"""Everything a generation's workflow remembers, in one place."""

from dataclasses import dataclass, field
from datetime import datetime

from workflows.contracts.generation import (
    Admission,
    CancelRequest,
    Closing,
    GenerationRequest,
    GenerationView,
    LeaseGrant,
    Resolution,
)
from workflows.contracts.states import AdmissionOutcome, CreditStatus, Phase, Status


@dataclass
class Unknown:
    """An outcome that nobody knows, and what is being done about it.

    Attributes:
        since: When the evidence ended.
        awaiting: Which evidence would decide.
        next_look_at: When it is looked for next.
        resolve_by: When it is raised to an operator.
        raised: Whether it has been.
        reason: Why nobody knows.
    """

    since: datetime
    awaiting: str
    next_look_at: datetime
    resolve_by: datetime
    raised: bool = False
    reason: str = ""


@dataclass
class Late:
    """A search for a result that goes on after a release without an outcome.

    Attributes:
        until: When it ends.
        next_look_at: When the next look is.
    """

    until: datetime
    next_look_at: datetime


@dataclass
class CourseState:
    """The state of one generation; message handlers only read it or set one field.

    Attributes:
        request: What was asked for.
        phase: Where it stands, as far as its workflow can know; `running` from the moment a card has it.
        admission: None until the hold's transaction has answered.
        offer: A lease that was assigned and not looked at yet.
        lease: The card that the generation has.
        placements: How many cards it has had.
        short_under: The first lease under which memory was not enough for its run.
        cancel: A cancel that was taken up and isn't confirmed yet.
        unknown: Set while the outcome isn't known.
        looks: How often somebody was asked about a run in doubt.
        late: Set while a result is looked for after a release.
        was_unknown: Credits stay shown as unknown until they move, also when the run is placed again.
        resolution: An operator's decision.
        closing: The committed end.
        story: What happened, one line each, for the Web UI.
    """

    request: GenerationRequest
    phase: Phase = Phase.WAITING
    admission: Admission | None = None
    offer: LeaseGrant | None = None
    lease: LeaseGrant | None = None
    placements: int = 0
    short_under: str | None = None
    cancel: CancelRequest | None = None
    unknown: Unknown | None = None
    was_unknown: bool = False
    looks: int = 0
    late: Late | None = None
    resolution: Resolution | None = None
    closing: Closing | None = None
    story: list[str] = field(default_factory=list)

    @property
    def credit_status(self) -> CreditStatus | None:
        """Where the credits stand; None before the hold and after a refusal."""
        if self.closing is not None:
            return self.closing.credit_status
        if self.admission is None or self.admission.outcome is AdmissionOutcome.REFUSED:
            return None
        if self.was_unknown:
            return CreditStatus.UNKNOWN
        return self.admission.credit_status

    @property
    def is_of_another_body(self) -> bool:
        """Whether the operation was admitted with another body than this workflow was started with.

        Then this course has no right to the hold: it would price, judge and settle what nobody asked for.
        """
        return self.admission is not None and self.admission.fingerprint != self.request.fingerprint

    @property
    def ended(self) -> Status | None:
        """How it ended, once that is committed."""
        return self.closing.status if self.closing is not None else None

    def view(self) -> GenerationView:
        """The answer to the `state` query."""
        return GenerationView(
            task_id=self.request.task_id,
            phase=self.phase,
            status=self.ended or Status.PENDING,
            credit_status=self.credit_status,
            card_label=self.lease.card_label if self.lease else None,
            fence=self.lease.fence if self.lease else None,
            cancel=self.cancel,
            unknown_since=self.unknown.since if self.unknown else None,
            next_look_at=self.unknown.next_look_at if self.unknown else None,
            resolve_by=self.unknown.resolve_by if self.unknown else None,
            looks=self.looks,
            late_until=self.late.until if self.late else None,
        )
