"""Every failure that anybody outside can see: a noun with a stable code, a verdict and a severity.

The table is the contract. HTTP statuses and retry verdicts are derived from it in one place
(`api/errors.py`), never chosen at the point where something fails.
"""

from enum import StrEnum
from typing import NamedTuple

from workflows.contracts.message import Message, Words


class Severity(StrEnum):
    """Who should hear of it."""

    CALLER = "caller"
    """The caller's doing; no log above info."""
    PLATFORM = "platform"
    """Ours; logged as a warning and counted."""
    OPERATOR = "operator"
    """Somebody has to look."""


class Verdict(NamedTuple):
    """What a code means to whoever receives it."""

    http_status: int
    retryable: bool
    """True when the same request with the same operation id may succeed later."""
    severity: Severity
    meaning: str


class Code(StrEnum):
    """Stable codes. A code is never renamed or reused."""

    INVALID_REQUEST = "invalid_request"
    INVALID_MEDIA_TYPE = "invalid_media_type"
    INVALID_MEDIA = "invalid_media"
    OPERATION_ID_MISSING = "operation_id_missing"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    INSUFFICIENT_CREDITS = "insufficient_credits"
    SPENDING_LIMIT_REACHED = "spending_limit_reached"
    ACCOUNT_FROZEN = "account_frozen"
    TASK_NOT_FOUND = "task_not_found"
    MODEL_NOT_FOUND = "model_not_found"
    RESOURCE_NOT_FOUND = "resource_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TASK_NOT_FINISHED = "task_not_finished"
    OPERATION_IN_PROGRESS = "operation_in_progress"
    OPERATION_CONFLICT = "operation_conflict"
    POSSIBLE_DUPLICATE = "possible_duplicate"
    CONTENT_EXPIRED = "content_expired"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    QUEUE_FULL = "queue_full"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    INTERNAL_ERROR = "internal_error"
    UPSTREAM_FAILED = "upstream_failed"
    OUT_OF_MEMORY = "out_of_memory"
    MEDIA_VALIDATION_FAILED = "media_validation_failed"
    IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE = "image_output_local_black_collapse"
    MODEL_NOT_READY = "model_not_ready"
    NO_CAPABLE_CARD = "no_capable_card"
    NOT_CONFIGURED = "not_configured"
    SERVICE_UNAVAILABLE = "service_unavailable"
    GATEWAY_TIMEOUT = "gateway_timeout"
    CANCELED = "canceled"
    EXPIRED = "expired"
    ADMISSION_LAPSED = "admission_lapsed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    ACCOUNT_UNKNOWN = "account_unknown"
    AMOUNT_OUT_OF_RANGE = "amount_out_of_range"
    REASON_MISSING = "reason_missing"
    NOTHING_TO_RESOLVE = "nothing_to_resolve"
    ALREADY_FINAL = "already_final"
    DECISION_PENDING = "decision_pending"
    ADJUSTMENT_EXCEEDED = "adjustment_exceeded"


VERDICTS: dict[Code, Verdict] = {
    Code.INVALID_REQUEST: Verdict(400, False, Severity.CALLER, "A parameter does not fit."),
    Code.INVALID_MEDIA_TYPE: Verdict(400, False, Severity.CALLER, "The label and the bytes of a file disagree."),
    Code.INVALID_MEDIA: Verdict(400, False, Severity.CALLER, "A file can't be decoded to its end."),
    Code.OPERATION_ID_MISSING: Verdict(400, False, Severity.CALLER, "A billable call needs an operation id."),
    Code.UNAUTHENTICATED: Verdict(401, False, Severity.CALLER, "No valid session or key."),
    Code.FORBIDDEN: Verdict(403, False, Severity.CALLER, "The caller's role doesn't allow this."),
    Code.INSUFFICIENT_CREDITS: Verdict(402, True, Severity.CALLER, "The balance doesn't cover the price."),
    Code.SPENDING_LIMIT_REACHED: Verdict(
        402, True, Severity.CALLER, "A limit of credits a day or month is used up."
    ),
    Code.ACCOUNT_FROZEN: Verdict(403, False, Severity.CALLER, "An operator froze the account."),
    Code.TASK_NOT_FOUND: Verdict(404, False, Severity.CALLER, "No such task."),
    Code.MODEL_NOT_FOUND: Verdict(404, False, Severity.CALLER, "No such model."),
    Code.RESOURCE_NOT_FOUND: Verdict(404, False, Severity.CALLER, "No such resource."),
    Code.METHOD_NOT_ALLOWED: Verdict(405, False, Severity.CALLER, "This address takes another method."),
    Code.TASK_NOT_FINISHED: Verdict(409, True, Severity.CALLER, "The task has no result yet."),
    Code.OPERATION_IN_PROGRESS: Verdict(409, True, Severity.CALLER, "The same operation is being admitted."),
    Code.OPERATION_CONFLICT: Verdict(409, False, Severity.CALLER, "The operation id was used with another body."),
    Code.POSSIBLE_DUPLICATE: Verdict(
        409, False, Severity.CALLER, "The same was asked for a moment ago under another operation id."
    ),
    Code.CONTENT_EXPIRED: Verdict(410, False, Severity.CALLER, "The result's retention is over."),
    Code.PAYLOAD_TOO_LARGE: Verdict(413, False, Severity.CALLER, "More than the limit."),
    Code.UNSUPPORTED_MEDIA_TYPE: Verdict(415, False, Severity.CALLER, "The body's type isn't taken here."),
    Code.RANGE_NOT_SATISFIABLE: Verdict(416, False, Severity.CALLER, "The range lies outside the content."),
    Code.RATE_LIMITED: Verdict(429, True, Severity.CALLER, "Too fast."),
    Code.QUOTA_EXCEEDED: Verdict(429, True, Severity.CALLER, "Too many in flight."),
    Code.QUEUE_FULL: Verdict(429, True, Severity.PLATFORM, "The model's queue is at its bound."),
    Code.INTERNAL_ERROR: Verdict(500, True, Severity.OPERATOR, "A fault of ours."),
    Code.UPSTREAM_FAILED: Verdict(502, False, Severity.PLATFORM, "The engine failed."),
    Code.OUT_OF_MEMORY: Verdict(502, True, Severity.PLATFORM, "The engine ran out of memory."),
    Code.MEDIA_VALIDATION_FAILED: Verdict(502, False, Severity.PLATFORM, "The output broke its contract."),
    Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE: Verdict(
        502, False, Severity.PLATFORM, "The engine's output is one blank or black field."
    ),
    Code.MODEL_NOT_READY: Verdict(503, True, Severity.PLATFORM, "No card has passed this model's canary."),
    Code.NO_CAPABLE_CARD: Verdict(
        503, False, Severity.OPERATOR, "No card that is known could ever serve this model."
    ),
    Code.NOT_CONFIGURED: Verdict(503, False, Severity.OPERATOR, "A setting is missing."),
    Code.SERVICE_UNAVAILABLE: Verdict(503, True, Severity.OPERATOR, "A part that is needed is away."),
    Code.GATEWAY_TIMEOUT: Verdict(504, True, Severity.PLATFORM, "No answer in time; it may still be running."),
    Code.CANCELED: Verdict(409, False, Severity.CALLER, "Canceled as asked."),
    Code.EXPIRED: Verdict(504, False, Severity.PLATFORM, "Not started before its deadline."),
    Code.ADMISSION_LAPSED: Verdict(504, True, Severity.PLATFORM, "The caller gave up before the hold."),
    Code.OUTCOME_UNKNOWN: Verdict(502, False, Severity.OPERATOR, "The engine may or may not have run."),
    Code.ACCOUNT_UNKNOWN: Verdict(404, False, Severity.CALLER, "No such account that pays."),
    Code.AMOUNT_OUT_OF_RANGE: Verdict(
        400, False, Severity.CALLER, "An amount is no whole number within its bounds."
    ),
    Code.REASON_MISSING: Verdict(400, False, Severity.CALLER, "What an operator does needs a reason."),
    Code.NOTHING_TO_RESOLVE: Verdict(409, False, Severity.CALLER, "The outcome isn't in doubt."),
    Code.ALREADY_FINAL: Verdict(409, False, Severity.CALLER, "It is over; what was booked stays."),
    Code.DECISION_PENDING: Verdict(409, True, Severity.CALLER, "It is decided, and being carried out."),
    Code.ADJUSTMENT_EXCEEDED: Verdict(
        409, False, Severity.CALLER, "More than the generation was charged would be given back."
    ),
}


class LimitHit(Message):
    """Which limit refused a creation.

    Attributes:
        whose: `account` or `key`.
        window: `in_flight`, `minute`, `day` or `month`.
        limit: Generations, or credits of a day or month.
        used: How much of it is used.
    """

    whose: str
    window: str
    limit: int
    used: int


class Failure(Message):
    """A failure as data: what is stored with a generation and shown to its caller.

    Attributes:
        code: One of `Code`.
        message: A sentence for the caller. Never a path, address, host or engine's own text.
        param: The request's field that it is about, when it is about one.
        retry_after_s: Seconds after which a retry makes sense, when that is known.
        limit: The limit that was hit, when it was one.
    """

    code: Code
    message: Words
    param: str | None = None
    retry_after_s: float | None = None
    limit: LimitHit | None = None
