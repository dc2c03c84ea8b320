"""What the database answers about generations, as frozen values."""

from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from infra.accounts import Member
from infra.accounts.keys import ApiKey
from infra.generations.doubts import Doubt
from infra.limits import LimitStanding, limit_refusal, standing_refusal
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import CancelRequest, GenerationRequest
from workflows.contracts.media import Partial, RefusedOutput
from workflows.contracts.message import Message
from workflows.contracts.states import CreditStatus, Phase, Status


class CancelRecord(CancelRequest):
    """Who first asked to cancel, why, and when."""

    at: datetime


class ArtifactRecord(Message):
    """One kept result, with the standing of its generation.

    Attributes:
        index: Its place in the answer, from 0.
        role: As in its contract.
        sha256: Digest of the bytes; the ETag.
        mime: Type of the bytes.
        size: Bytes.
        width: Pixels.
        height: Pixels.
        created_at: When it was kept.
        expires_at: From then on `/content` answers 410.
        status: Of the generation. Bytes are delivered for `completed` only.
        credit_status: Of the generation; `settled` when `status` is `completed`.
    """

    index: int
    role: str
    sha256: str
    mime: str
    size: int
    width: int
    height: int
    created_at: datetime
    expires_at: datetime
    status: Status
    credit_status: CreditStatus


class GenerationRecord(Message):
    """A generation as its owner may read it.

    Attributes:
        task_id: Also the workflow's id.
        account_id: Who pays.
        operation_id: The caller's key.
        request: What was admitted.
        phase: What is being done.
        status: How it ended, or pending.
        credit_status: Where the credits stand.
        price_credits: What was held.
        charged_credits: What was paid; 0 before the end.
        created_at: When the API received it.
        started_at: When a host first fetched the order.
        finished_at: When it ended.
        expires_at: When it ends released unless it has started.
        failure: Why it didn't complete.
        cancel: Who asked to cancel, if anybody.
        unknown_since: Since when the outcome isn't known.
        unknown_reason: Why not.
        awaiting: Which evidence is awaited.
        next_look_at: When it is looked for next.
        resolve_by: When an operator is asked.
        raised: True once an operator has to decide.
        artifacts: In order; delivered only once completed.
        refused: Outputs asked for that aren't among them, and why; empty when all were delivered.
        card_label: Public name of the card of its latest lease.
        gpu_model: Of that card.
        fraction: 0 to 1 while its card's host reports it running.
        queue_ahead: Those before it that wait for cards that it could use; None when it doesn't wait.
        eta_s: Seconds until it is expected to start, when that was last told; None when it can't be told.
        why_not_yet: Why it still waits, in sentences for people.
        version: Rises with each change.
        doubt: What was looked at; None of one whose outcome was never in doubt.
    """

    task_id: str
    account_id: str
    operation_id: str
    request: GenerationRequest
    phase: Phase
    status: Status
    credit_status: CreditStatus
    price_credits: int
    charged_credits: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime
    failure: Failure | None
    cancel: CancelRecord | None
    unknown_since: datetime | None
    unknown_reason: str | None
    awaiting: str | None
    next_look_at: datetime | None
    resolve_by: datetime | None
    raised: bool
    artifacts: tuple[ArtifactRecord, ...]
    card_label: str | None
    gpu_model: str | None
    fraction: float | None
    queue_ahead: int | None
    eta_s: float | None = None
    why_not_yet: tuple[str, ...] = ()
    version: int
    refused: tuple[RefusedOutput, ...] = ()
    doubt: Doubt | None = None

    @property
    def partial(self) -> Partial | None:
        """What it delivered, when that is over and not all that was asked for."""
        if self.status is not Status.COMPLETED or not self.refused:
            return None
        return Partial(asked=len(self.request.outputs), delivered=len(self.artifacts), refused=self.refused)

    @classmethod
    def as_admitted(cls, request: GenerationRequest, credit_status: CreditStatus) -> "GenerationRecord":
        """The record right after the hold, without reading it back; the card isn't told yet."""
        return cls(
            task_id=request.task_id,
            account_id=request.account_id,
            operation_id=request.operation_id,
            request=request,
            phase=Phase.WAITING,
            status=Status.PENDING,
            credit_status=credit_status,
            price_credits=request.price_credits,
            charged_credits=0,
            created_at=request.created_at,
            started_at=None,
            finished_at=None,
            expires_at=request.expires_at,
            failure=None,
            cancel=None,
            unknown_since=None,
            unknown_reason=None,
            awaiting=None,
            next_look_at=None,
            resolve_by=None,
            raised=False,
            artifacts=(),
            card_label=None,
            gpu_model=None,
            fraction=None,
            queue_ahead=None,
            version=1,
        )


class OpenGeneration(Message):
    """A generation that holds credits, with all that is needed to take its course up again.

    Attributes:
        request: What was admitted.
        cancel: The cancel that was recorded, if any.
        admitted_at: When the credits were held.
    """

    request: GenerationRequest
    cancel: CancelRequest | None
    admitted_at: datetime


class ExistingOperation(Message):
    """What is known of an operation id before a request with it is admitted.

    Attributes:
        fingerprint: Of the body that was admitted or last refused.
        fields: Of the same body; name the field that differs.
        task_id: The generation, held or not.
        attempt: The attempt to send next.
        generation_status: None while every attempt was refused: then any body may be sent.
        duplicate_of: The task that answered it, when it was taken for a duplicate.
    """

    fingerprint: str
    fields: dict[str, str]
    task_id: str
    attempt: int
    generation_status: Status | None
    duplicate_of: str | None = None


class Preflight(Message):
    """Balance and limits before an admission, so that a storm of refusals makes no workflows. Only a hint: the
    admission decides again, under the account's lock.

    Attributes:
        available_credits: What the account can hold; 0 when there is no such account.
        frozen: True when an operator froze the account.
        in_flight: Its open generations.
        queue_length: Generations of the model that wait.
        existing: What is known of the operation id.
        recent: Tasks of the account that stand since less than the window of duplicates, by fingerprint.
        limits: Where the account's and the key's own limits stand; empty without any.
        at: When it was read, by the database's clock.
        clock_ahead: The database's clock minus this process's. `admit_by` is judged by the former: without this,
            a host whose clock is behind by some seconds would have every admission refused.
    """

    available_credits: int
    frozen: bool
    in_flight: int
    queue_length: int
    existing: ExistingOperation | None
    recent: dict[str, str] = Field(default_factory=dict)
    clock_ahead: timedelta = timedelta(0)
    limits: tuple[LimitStanding, ...] = ()
    at: datetime

    def duplicate_of(self, fingerprint: str) -> str | None:
        """The task that answers a request of this body in place of a second one, as an admission would say."""
        if self.existing is not None and self.existing.fingerprint == fingerprint and self.existing.duplicate_of:
            return self.existing.duplicate_of
        return self.recent.get(fingerprint)

    def refusal(self, *, price_credits: int, in_flight_max: int, queue_max: int) -> Failure | None:
        """Why an admission would be refused now, with the very words that it would use."""
        if self.frozen:
            return refusal(Code.ACCOUNT_FROZEN)
        if self.available_credits < price_credits:
            return refusal(Code.INSUFFICIENT_CREDITS, available=self.available_credits, price=price_credits)
        limited = standing_refusal(
            self.limits, price=price_credits, in_flight=self.in_flight, in_flight_max=in_flight_max, at=self.at
        )
        if limited is not None:
            return limited
        if self.queue_length >= queue_max:
            return refusal(Code.QUEUE_FULL, limit=queue_max)
        return None


class Arrival(Message):
    """Who creates, and what an admission would say, before any model is named.

    Attributes:
        who: Of the caller's session, or the key that it showed.
        queues: Generations that wait, by model; a model for which none waits isn't there.
        of_no_model: Everything that doesn't depend on the model; its queue is empty.
    """

    who: Member | ApiKey
    queues: dict[str, int]
    of_no_model: Preflight

    def preflight(self, model_id: str) -> Preflight:
        """For a request of this model."""
        return self.of_no_model.model_copy(update={"queue_length": self.queues.get(model_id, 0)})


class ModelReadiness(Message):
    """A model whose canary passed on a card that is alive now, under the agent that owns it now.

    Attributes:
        model_id: The model.
        digest: Of the manifest that the canary ran.
        passed_at: When it last passed.
    """

    model_id: str
    digest: str
    passed_at: datetime


_SENTENCES: dict[Code, tuple[str, float | None]] = {
    Code.ADMISSION_LAPSED: ("The request waited too long to be admitted; nothing was held.", 1),
    Code.ACCOUNT_FROZEN: ("The account is frozen.", None),
    Code.INSUFFICIENT_CREDITS: ("This costs {price} credits; {available} are available.", None),
    Code.POSSIBLE_DUPLICATE: ("The same was asked for a moment ago: {task_id} is the task.", None),
    Code.QUEUE_FULL: ("The model's queue is at its limit of {limit} waiting generations.", 10),
    Code.FORBIDDEN: ("The account can't pay for generations, or the key was revoked.", None),
}
"""A sentence for the caller, and the seconds after which trying again makes sense. Limits have their own."""


def refusal(code: Code, **figures: Any) -> Failure:
    """The failure that a refused admission carries; `figures` fill its sentence."""
    if code not in _SENTENCES:
        return limit_refusal(code, figures)
    sentence, retry_after_s = _SENTENCES[code]
    return Failure(code=code, message=sentence.format(**figures), retry_after_s=retry_after_s)
