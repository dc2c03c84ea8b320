"""What operators read and give, as frozen values; and what of it is refused before it reaches the database."""

from datetime import datetime
from typing import Any

from pydantic import AwareDatetime

from infra.db.errors import AmountOutOfRange, ReasonMissing
from workflows.contracts.message import Message

CREDITS_MAX = 10**12
"""Of one grant or adjustment; far above any price."""
COUNT_MAX = 100_000
"""Of a limit in generations."""
BOUNDS = {
    "in_flight": COUNT_MAX,
    "per_minute": COUNT_MAX,
    "credits_per_day": CREDITS_MAX,
    "credits_per_month": CREDITS_MAX,
}
"""Of each limit."""
REASON_CHARS_MAX = 500


class Brief(Message):
    """One line about a generation."""

    task_id: str
    account_id: str
    operation_id: str
    model_id: str
    mode: str
    phase: str
    status: str
    credit_status: str
    price_credits: int
    charged_credits: int
    admitted_at: datetime
    finished_at: datetime | None
    unknown_since: datetime | None
    resolve_by: datetime | None
    raised: bool
    is_canary: bool
    hold: int


class Story(Message):
    """Everything that the database knows of one generation, part by part, as it lies there."""

    row: dict[str, Any]
    request: dict[str, Any]
    events: list[dict[str, Any]]
    transfers: list[dict[str, Any]]
    leases: list[dict[str, Any]]
    ticket: dict[str, Any] | None
    artifacts: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    uploads: list[dict[str, Any]]
    late_look: dict[str, Any] | None
    acts: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class Payer(Message):
    """An account as operators see it.

    Attributes:
        available: Credits that can be held.
        held: Credits of open generations.
        spent: Credits ever charged.
        expiring: Of the available ones, those with a date.
        next_expiry: The first such date.
        in_flight: Open generations.
        members: Who acts for it.
        limits: Its own and its keys', with what is used of each.
    """

    id: str
    kind: str
    name: str
    frozen: bool
    created_at: datetime
    available: int
    held: int
    spent: int
    expiring: int
    next_expiry: datetime | None
    in_flight: int
    members: list[dict[str, Any]]
    limits: list[dict[str, Any]]


class Act(Message):
    """One act of an operator."""

    id: int
    at: datetime
    actor: str
    act: str
    subject: str
    reason: str
    data: dict[str, Any]


class OpenFinding(Message):
    """What a sweep found; open while `ended_at` is None."""

    id: int
    kind: str
    subject: str
    detail: str
    remedy: str
    found_at: datetime
    seen_at: datetime
    ended_at: datetime | None
    outcome: str | None


class SweepStanding(Message):
    """Where the sweep stands.

    Attributes:
        looks: When each step was last done, and for whom.
        open: What is found and not mended.
        ended: What ended last.
    """

    looks: list[dict[str, Any]]
    open: tuple[OpenFinding, ...]
    ended: tuple[OpenFinding, ...]


class AmountGiven(Message):
    """A grant or an adjustment.

    Attributes:
        account_id: Whose credits.
        credits: How many; below zero takes them, by an adjustment.
        key: Makes it happen once.
        reason: Why.
        actor: Who.
        task_id: The generation that an adjustment is about.
        cause: Of a grant: `grant`, `top_up` or `promotion`.
        expires_at: When what was granted is lost unless it is spent.
    """

    account_id: str
    credits: int
    key: str
    reason: str
    actor: str
    task_id: str | None = None
    cause: str = "grant"
    expires_at: AwareDatetime | None = None


class Limits(Message):
    """What an account or a key may use; None sets no bound."""

    in_flight: int | None = None
    per_minute: int | None = None
    credits_per_day: int | None = None
    credits_per_month: int | None = None


def amount(value: object, *, name: str = "credits", least: int = 1, most: int = CREDITS_MAX) -> int:
    """A whole number within bounds.

    Raises:
        AmountOutOfRange: It is none: a fraction, a text, beyond the bounds, or an adjustment by nothing.
    """
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not least <= value <= most
        or (not value and least)
    ):
        raise AmountOutOfRange(
            f"`{name}` is a whole number from {least} to {most}" + (", not 0" if least < 0 else "")
        )
    return value


def reason_given(value: object) -> str:
    """Why something is done, in at most `REASON_CHARS_MAX` characters.

    Raises:
        ReasonMissing: It is blank, too long or no text.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > REASON_CHARS_MAX:
        raise ReasonMissing(f"`reason` says why, in 1 to {REASON_CHARS_MAX} characters")
    return value.strip()


def check_limits(limits: Limits) -> None:
    """Every bound that is set is a whole number that can be one.

    Raises:
        AmountOutOfRange: Naming the bound.
    """
    for name, most in BOUNDS.items():
        value = getattr(limits, name)
        if value is not None:
            amount(value, name=name, least=0, most=most)
