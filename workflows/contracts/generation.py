"""The messages of a generation, from the API's request to the result."""

from datetime import datetime

from pydantic import AwareDatetime

from workflows.contracts.failures import Failure
from workflows.contracts.media import Artifact, BlobRef, InputImage, MediaContract, Partial, RefusedOutput
from workflows.contracts.message import Message, Words
from workflows.contracts.prices import PriceTerms
from workflows.contracts.states import (
    AdmissionOutcome,
    CancelAnswer,
    CreditStatus,
    Decision,
    Phase,
    RunVerdict,
    Status,
)

Parameter = str | int | float | bool


class ResidentNeed(Message):
    """What stays in a card's memory for this work: a part of the model, or a service that it calls."""

    name: str
    mib: int
    load_s: float
    stop_s: float = 0.0
    working_mib: int = 0


class PlacementNeeds(Message):
    """What placement has to know of the work.

    Attributes:
        run_s: Seconds expected on a warm card, as declared; what was learned goes before it.
        reserve_mib: Kept free on top of the budget. MiB.
        cards: Cards of one host that it needs at the same time.
        priority: `interactive`, `standard` or `batch`.
        residents: What it uses, in the order of use.
        only_card: The card that it was asked of, as canaries are; None for all others.
    """

    run_s: float
    reserve_mib: int = 0
    cards: int = 1
    priority: str = "interactive"
    residents: tuple[ResidentNeed, ...] = ()
    only_card: str | None = None


class ModelSnapshot(Message):
    """What the manifest said when the request was admitted; a changed manifest can't change a running generation.

    Attributes:
        model_id: Public, stable id.
        digest: SHA-256 of the manifest and everything it names; receipts and canaries carry it.
        capability: As `image_upscale`; what a card's engine must offer.
        engine: The engine kind, as `native`.
        mode: One of the manifest's modes.
        vram_budget_mib: A placement filter, never a measured peak. MiB.
        run_s_max: Seconds an engine may run before it is stopped.
        queue_max: Generations of this model that may wait before callers get 429.
        cancellable: Whether its engine can stop a run.
        resolve_by_s: Seconds after which an unknown outcome is raised to an operator.
        release_unknown: True when the manifest opts into releasing at `resolve_by`, at the house's loss.
        content_days: Days that results are kept.
        placement: What placement has to know.
    """

    model_id: str
    digest: str
    capability: str
    engine: str
    mode: str
    vram_budget_mib: int
    run_s_max: int
    queue_max: int
    cancellable: bool
    resolve_by_s: int
    release_unknown: bool = False
    content_days: int = 30
    placement: PlacementNeeds | None = None


class GenerationRequest(Message):
    """A checked, priced request: the input of `GenerationWorkflow`. References only, a few KiB.

    Attributes:
        task_id: `ids.task_id(account_id, operation_id)`; the workflow's id.
        account_id: Who pays.
        operation_id: The caller's idempotency key.
        fingerprint: SHA-256 over `fields`; the API compares it with the answer's.
        fields: The canonical body: each field's value, or the digest of a file. Names a conflict's field.
        attempt: Rises only after a refusal.
        model: What the manifest said.
        parameters: Checked values for the engine; nothing personal.
        inputs: Pictures, in order.
        outputs: One contract for each artifact asked for.
        price_credits: What the hold takes, in whole credits; never more is charged.
        created_at: When the API received it.
        admit_by: No hold is taken after this; the caller gave up.
        expires_at: A generation not started by then ends released.
        is_canary: True for the house's own minimal request.
        price: How `price_credits` came about, output by output; None in requests of before there were terms.
        made_by: A member's id, `key:` and a key's id, or `house`.
        key_id: The API key that it came with.
        allow_duplicate: True when the caller insists on a task of its own, whatever he asked for a moment ago.
    """

    task_id: str
    account_id: str
    operation_id: str
    fingerprint: str
    fields: dict[str, str]
    attempt: int
    model: ModelSnapshot
    parameters: dict[str, Parameter]
    inputs: tuple[InputImage, ...]
    outputs: tuple[MediaContract, ...]
    price_credits: int
    created_at: AwareDatetime
    admit_by: AwareDatetime
    expires_at: AwareDatetime
    is_canary: bool = False
    price: PriceTerms | None = None
    made_by: str = ""
    key_id: str | None = None
    allow_duplicate: bool = False


class LeaseGrant(Message):
    """A card given to one generation.

    Attributes:
        lease_id: UUID text.
        card_uuid: The physical card; its queue is `ids.card_queue(card_uuid)`.
        card_label: Its public name.
        fence: Rises with each lease of the card; a lower one can neither start nor deliver.
        accepted: True when granted in the admission's own transaction, so there is nothing left to accept.
    """

    lease_id: str
    card_uuid: str
    card_label: str
    fence: int
    accepted: bool = False


class Admission(Message):
    """The answer to the caller.

    Attributes:
        task_id: The generation.
        outcome: Held, finished before, or refused.
        fingerprint: Of the body that was admitted; another body's caller compares and gets a conflict.
        credit_status: None when refused.
        balance_credits: Available after the hold; None when refused before it was read.
        refusal: Why, when refused.
        lease: Given at once when a fitting card was idle.
        created_at: When the request that began the workflow was received: equal for all who share the answer.
        duplicate_of: The task that is the answer, when the request was refused as its duplicate.
    """

    task_id: str
    outcome: AdmissionOutcome
    fingerprint: str
    credit_status: CreditStatus | None = None
    balance_credits: int | None = None
    refusal: Failure | None = None
    lease: LeaseGrant | None = None
    created_at: AwareDatetime | None = None
    duplicate_of: str | None = None


class RunOrder(Message):
    """The only argument of the card's activity: it outlives retries and stays in histories, so it says little."""

    task_id: str
    lease_id: str
    card_uuid: str
    fence: int
    attach_only: bool = False
    """True when evidence is sought: look for the run, start nothing."""
    ordered_at: AwareDatetime | None = None
    """Of a look: not later than when the run was ordered; a journal lost after that proves nothing by silence."""


class RunOutcome(Message):
    """What the host says about the run, after its journal and its engine were asked.

    Attributes:
        verdict: Finished, failed, canceled, or unknown.
        files: What was uploaded; only when finished.
        failure: Why, when failed or unknown.
        may_have_run: False only with proof that the engine never started it.
        engine_s: Seconds the engine worked, when it said so.
        evidence: One line for the operator: what was looked at and what it said.
        lost: A run that began is proven to be over without a result, as when its engine was stopped; the request
            isn't to blame, so it may run again.
    """

    verdict: RunVerdict
    files: tuple[BlobRef, ...] = ()
    failure: Failure | None = None
    may_have_run: bool = True
    engine_s: float | None = None
    evidence: str = ""
    lost: bool = False
    indices: tuple[int, ...] = ()
    refused: tuple[RefusedOutput, ...] = ()


class InspectOrder(Message):
    """Files to decode to the end, each against its contract."""

    task_id: str
    files: tuple[BlobRef, ...]
    contracts: tuple[MediaContract, ...]


class Inspection(Message):
    """The judgement, each file by itself.

    Attributes:
        artifacts: The good files; each has its file's place in the order as its index.
        failure: Why there is none; None when at least one is good.
        refused: The others, by their file's place in the order.
    """

    artifacts: tuple[Artifact, ...] = ()
    failure: Failure | None = None
    refused: tuple[RefusedOutput, ...] = ()


class KeepOrder(Message):
    """Artifacts to record for their owner, with retention, and what was asked for besides and isn't delivered."""

    task_id: str
    account_id: str
    artifacts: tuple[Artifact, ...]
    refused: tuple[RefusedOutput, ...] = ()


class AcceptLease(Message):
    """Compare-and-set of an offered lease by the generation that it was offered to."""

    task_id: str
    lease: LeaseGrant


class Requeue(AcceptLease):
    """End a lease under which nothing ran, and wait again.

    Without `never_ran` the transaction has to find the proof itself: the order was never fetched. With it, the
    host gave the proof: the engine never started the run, or it is over without a result.
    """

    never_ran: bool = False
    """True when the card's host has proven it."""


class Advance(Message):
    """A step of a generation that moves no money: `phase` is recorded together with its event."""

    task_id: str
    phase: Phase
    note: str = ""


class Settle(Message):
    """Pay for what was delivered and end the generation."""

    task_id: str
    credits: int
    lease_id: str | None
    actor: str


class Release(Message):
    """Give the hold back and end the generation as `status`."""

    task_id: str
    status: Status
    failure: Failure
    lease_id: str | None
    actor: str


class MarkUnknown(Message):
    """Record that the outcome isn't known: what is awaited, when it is looked for next, and the latest end."""

    task_id: str
    since: AwareDatetime
    reason: str
    awaiting: str
    next_look_at: AwareDatetime
    resolve_by: AwareDatetime
    raised: bool = False
    """True once `resolve_by` has passed and an operator has to decide."""


class Closing(Message):
    """How money steps answer: the state after the transaction, the same on every repetition."""

    task_id: str
    status: Status
    credit_status: CreditStatus
    balance_credits: int
    charged_credits: int | None = None
    """None from steps of before it was told; then the whole price of what completed."""


class CancelRequest(Message):
    """Why, and by whom. Both have defaults so that `temporal workflow signal --name cancel` works bare."""

    reason: Words = "no reason given"
    actor: Words = "signal"


class CancelReply(Message):
    """Only `canceled` means that it is, and only then is the hold released."""

    task_id: str
    answer: CancelAnswer
    credit_status: CreditStatus


class Resolution(Message):
    """An operator's decision about an unknown outcome; reason and actor are kept."""

    decision: Decision
    reason: Words
    actor: Words


class GenerationResult(Message):
    """What the workflow returns."""

    task_id: str
    status: Status
    credit_status: CreditStatus
    charged_credits: int = 0
    artifacts: tuple[Artifact, ...] = ()
    failure: Failure | None = None
    partial: Partial | None = None
    """Set when fewer outputs were delivered than asked for."""


class GenerationView(Message):
    """The answer to the `state` query."""

    task_id: str
    phase: Phase
    status: Status
    credit_status: CreditStatus | None
    card_label: str | None = None
    fence: int | None = None
    cancel: CancelRequest | None = None
    unknown_since: datetime | None = None
    next_look_at: datetime | None = None
    resolve_by: datetime | None = None
    looks: int = 0
    """How often somebody was asked about a run in doubt."""
    late_until: datetime | None = None
    """Until when a result is looked for after a release."""
