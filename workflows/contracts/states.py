"""Finite sets: where a generation stands, where its credits stand, how a run ended."""

from enum import StrEnum


class Phase(StrEnum):
    """What is being done for a generation right now."""

    WAITING = "waiting"
    """Held and admitted; no card is leased yet."""
    PLACED = "placed"
    """A card is leased; its host has not fetched the order yet."""
    RUNNING = "running"
    """The host fetched the order: from here on the engine may have run."""
    INSPECTING = "inspecting"
    """The run finished; its media are decoded to the end and judged."""
    KEEPING = "keeping"
    """The media are good and are being recorded as artifacts."""
    RECONCILING = "reconciling"
    """The outcome isn't known; evidence is being gathered."""
    FINISHED = "finished"
    """Nothing more will happen."""


class Status(StrEnum):
    """How a generation ended, or that it has not."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """True when nothing more will happen to the generation."""
        return self is not Status.PENDING


class CreditStatus(StrEnum):
    """Where the credits of a generation stand. A refused request has none of these."""

    HELD = "held"
    SETTLED = "settled"
    RELEASED = "released"
    UNKNOWN = "unknown"
    """Held still, because the upstream may or may not have run."""


class RunVerdict(StrEnum):
    """What a card's host says about a run. There is no fourth answer and no exception to guess at."""

    FINISHED = "finished"
    FAILED = "failed"
    """A definite verdict: it did not and will not produce the result."""
    CANCELED = "canceled"
    """The engine confirmed that it stopped, or the journal proves that it never started."""
    UNKNOWN = "unknown"
    """The engine took the job and can't be asked what became of it."""


class CancelAnswer(StrEnum):
    """What a caller is told about a cancel. Only CANCELED means that it is."""

    CANCELED = "canceled"
    CANCEL_REQUESTED = "cancel_requested"
    NOT_CANCELLABLE = "not_cancellable"
    NOT_SUPPORTED = "not_supported"


class Decision(StrEnum):
    """What an operator may decide about an unknown outcome."""

    SETTLE = "settle"
    RELEASE = "release"


class AdmissionOutcome(StrEnum):
    """What became of a request to admit."""

    HELD = "held"
    """Credits are held, now or by an earlier delivery of the same request."""
    FINISHED = "finished"
    """The same operation ran to its end before; nothing was held."""
    REFUSED = "refused"
    """Nothing was held; `refusal` says why."""
