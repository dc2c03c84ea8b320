"""The limits themselves, as operators read and set them."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from infra.db import Reader, Tx, load
from workflows.contracts.message import Message

_QUERIES = load(__package__)
_COUNT_MAX = 100_000
_CREDITS_MAX = 10**12
"""The bounds of the table's columns; more than anybody creates or has."""

Count = Annotated[int, Field(ge=0, le=_COUNT_MAX, strict=True)]
Credits = Annotated[int, Field(ge=0, le=_CREDITS_MAX, strict=True)]


class Limits(Message):
    """What a subject may use; None sets no bound.

    Attributes:
        in_flight: Open generations at once. For an account, None leaves the installation's bound.
        per_minute: Creations in any 60 s.
        credits_per_day: Credits of creations of one day, from midnight to midnight UTC.
        credits_per_month: Of one month, from its first day on, UTC.
    """

    in_flight: Count | None = None
    per_minute: Count | None = None
    credits_per_day: Credits | None = None
    credits_per_month: Credits | None = None


class LimitUse(Message):
    """How much of its limits a subject uses now: what is held counts, and what was charged.

    Attributes:
        in_flight: Open generations.
        minute: Creations of the last 60 s.
        day: Credits of today's creations.
        month: Credits of this month's.
    """

    in_flight: int
    minute: int
    day: int
    month: int


class LimitsOf(Message):
    """A subject with a limit.

    Attributes:
        subject: `account:<id>` or `key:<id>`.
        limits: What it may use.
        use: What it uses now.
        set_by: Who set it.
        set_at: When.
        reason: Why.
    """

    subject: str
    limits: Limits
    use: LimitUse
    set_by: str
    set_at: datetime
    reason: str


def account_subject(account_id: str) -> str:
    """An account as a subject of limits."""
    return f"account:{account_id}"


def key_subject(key_id: str) -> str:
    """A key as a subject of limits, besides its account's."""
    return f"key:{key_id}"


async def limits_of(reader: Reader, account_id: str) -> tuple[LimitsOf, ...]:
    """The limits of an account and of its keys, the account's first; who has none isn't there."""
    rows = await reader.all(_QUERIES["limits_of"], account_id=account_id)
    return tuple(
        LimitsOf.model_validate({**row, "limits": {name: row[name] for name in Limits.model_fields}})
        for row in rows
    )


async def set_limits(tx: Tx, *, subject: str, limits: Limits, reason: str, actor: str) -> Limits | None:
    """Set what a subject may use, audited; with no bound at all its limit goes. What it was before.

    Raises:
        NoSuchRow: no such account that pays, or no such key.
        ReasonMissing: reason or actor are blank.
    """
    before = await tx.value(
        _QUERIES["set_limits"], subject=subject, limits=limits.model_dump_json(), reason=reason, actor=actor
    )
    return None if before is None else Limits.model_validate({name: before[name] for name in Limits.model_fields})
