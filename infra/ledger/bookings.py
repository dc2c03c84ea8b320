"""Credits that come, go and are corrected beside generations. Each is one statement and keeps its act with it."""

from datetime import datetime

from infra.db import Tx, load

_QUERIES = load(__package__)


async def grant(
    tx: Tx,
    *,
    account_id: str,
    credits: int,  # noqa: A002  # the ledger's own word
    reason: str,
    actor: str,
    key: str,
    expires_at: datetime | None = None,
) -> bool:
    """Give credits to an account, once for each key; False when this very grant was made before.

    Raises:
        AmountOutOfRange: not a whole number from 1 to 10^12.
        KeyReused: the key was used for something else.
        NoSuchRow: no such account that pays.
        ReasonMissing: reason or actor are blank.
        UnfitTerm: the date has passed.
    """
    return await _give(tx, "grant", account_id, credits, expires_at, reason, actor, key)


async def top_up(
    tx: Tx,
    *,
    account_id: str,
    credits: int,  # noqa: A002  # the ledger's own word
    reason: str,
    actor: str,
    key: str,
    expires_at: datetime | None = None,
) -> bool:
    """The same for credits that were paid for; `key` names the payment."""
    return await _give(tx, "top_up", account_id, credits, expires_at, reason, actor, key)


async def promote(
    tx: Tx,
    *,
    account_id: str,
    credits: int,  # noqa: A002  # the ledger's own word
    expires_at: datetime,
    reason: str,
    actor: str,
    key: str,
) -> bool:
    """The same for credits that were given as a promotion: they come from `promotions`, and expire."""
    return await _give(tx, "promotion", account_id, credits, expires_at, reason, actor, key)


async def adjust(
    tx: Tx,
    *,
    account_id: str,
    credits: int,  # noqa: A002  # the ledger's own word
    reason: str,
    actor: str,
    key: str,
    task_id: str | None = None,
) -> bool:
    """Correct by a compensating entry, once for each key; False when this very one was made before.

    Args:
        tx: The transaction.
        account_id: Whose credits.
        credits: Given where above 0, taken where below.
        reason: Why.
        actor: By whom.
        key: What makes it the same when repeated.
        task_id: The generation that it corrects: then it moves between `revenue` and the payer, gives back at most
            what was charged, and takes back at most what it gave. Without, credits come into being or vanish.

    Raises:
        AdjustmentExceeded: more would be given back than was charged, or taken than was given back.
        AmountOutOfRange: 0, or beyond 10^12 either way.
        KeyReused: the key was used for something else.
        NoSuchRow: no such account that pays, or no such generation.
        Overdraft: more would be taken than is available.
        ReasonMissing: reason or actor are blank.
        WrongCounterpart: the generation is another account's.
    """
    answer = await tx.value(
        _QUERIES["adjust"],
        account_id=account_id,
        credits=credits,
        task_id=task_id,
        reason=reason,
        actor=actor,
        key=key,
    )
    return bool(answer["made"])


async def expire_lots(tx: Tx, *, account_id: str | None = None, limit: int = 1000) -> int:
    """Book what is past its date as lost, of one account or of all; how many lots, `limit` at most.

    An account that somebody works on is left for the next time, unless it is the one that was asked for.
    """
    return int(await tx.value(_QUERIES["expire_lots"], account_id=account_id, limit=limit))


async def _give(
    tx: Tx,
    cause: str,
    account_id: str,
    credits: int,  # noqa: A002  # the ledger's own word
    expires_at: datetime | None,
    reason: str,
    actor: str,
    key: str,
) -> bool:
    answer = await tx.value(
        _QUERIES["grant"],
        cause=cause,
        account_id=account_id,
        credits=credits,
        expires_at=expires_at,
        reason=reason,
        actor=actor,
        key=key,
    )
    return bool(answer["made"])
