"""How a limit refuses: what was hit, whose it is, how much is used, when it frees."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.limits.limits import LimitUse
from workflows.contracts.failures import Code, Failure, LimitHit
from workflows.contracts.message import Message

IN_FLIGHT_RETRY_S = 5
"""Nobody knows when a generation ends; asking every few seconds harms nobody."""


class LimitStanding(Message):
    """One subject's limit before an admission.

    Attributes:
        whose: `account` or `key`.
        in_flight: Open generations allowed; None leaves the installation's bound for an account.
        per_day: Credits of a day.
        per_month: Credits of a month.
        use: What is used now.
        refusal: What its windows say already of a creation that costs nothing.
    """

    whose: str
    in_flight: int | None
    per_day: int | None
    per_month: int | None
    use: LimitUse
    refusal: dict[str, Any] | None


def standing_refusal(
    standings: Sequence[LimitStanding], *, price: int, in_flight: int, in_flight_max: int, at: datetime
) -> Failure | None:
    """What an admission would be refused for now, in its order; `in_flight` counts the account's."""
    own = next((one.in_flight for one in standings if one.whose == "account"), None)
    bound = in_flight_max if own is None else own
    if in_flight >= bound:
        figures = {"subject": "account", "window": "in_flight", "limit": bound, "used": in_flight}
        return limit_refusal(Code.QUOTA_EXCEEDED, figures | {"retry_after_s": IN_FLIGHT_RETRY_S})
    for standing in standings:
        found = standing.refusal or _credits_refusal(standing, price, at)
        if found is not None:
            return limit_refusal(Code(found["code"]), found)
    return None


def limit_refusal(code: Code, figures: Mapping[str, Any]) -> Failure:
    """The failure for a limit that was hit; `figures` are those of the database's function `refusal_v1`."""
    hit = LimitHit(
        whose=figures.get("subject", "account"),
        window=figures.get("window", "in_flight"),
        limit=figures["limit"],
        used=figures.get("used", figures["limit"]),
    )
    after = figures.get("retry_after_s", IN_FLIGHT_RETRY_S)
    return Failure(code=code, message=_sentence(hit, after), retry_after_s=after, limit=hit)


def _sentence(hit: LimitHit, after: int | None) -> str:
    frees = "It does not free by waiting." if after is None else f"It frees in {after} s."
    whose = f"The {hit.whose}"
    match hit.window:
        case "in_flight":
            return (
                f"{whose} has {hit.used} generations in flight, its limit of {hit.limit}; one frees when one ends."
            )
        case "minute":
            return f"{whose} began {hit.used} generations within 60 s, its limit of {hit.limit} a minute. {frees}"
        case _:
            spent = f"{hit.used} of its {hit.limit} credits for this {hit.window} (UTC)"
            return f"{whose} used {spent}; this would cost more than is left. {frees}"


def _credits_refusal(standing: LimitStanding, price: int, at: datetime) -> dict[str, Any] | None:
    """Month before day, as the database judges."""
    today = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    next_month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    for window, limit, used, frees_at in (
        ("month", standing.per_month, standing.use.month, next_month),
        ("day", standing.per_day, standing.use.day, today + timedelta(days=1)),
    ):
        if limit is not None and used + price > limit:
            return {
                "code": Code.SPENDING_LIMIT_REACHED,
                "subject": standing.whose,
                "window": window,
                "limit": limit,
                "used": used,
                "retry_after_s": _seconds(frees_at - at) if price <= limit else None,
            }
    return None


def _seconds(left: timedelta) -> int:
    """Rounded up: whoever waits so long has waited long enough."""
    return -(-left // timedelta(seconds=1))
