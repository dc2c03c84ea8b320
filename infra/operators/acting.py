"""What operators do with accounts. Each is one statement that keeps its act with it, or changes nothing."""

from infra.db import Tx, load
from infra.db.errors import NoSuchRow
from infra.operators.records import AmountGiven, Limits

_QUERIES = load("infra.operators")


async def grant(tx: Tx, given: AmountGiven) -> bool:
    """Give credits, once for each key; False when this very grant was made before.

    Raises:
        NoSuchRow: no such account that pays.
        KeyReused: the key was used for something else.
        AmountOutOfRange, ReasonMissing, UnfitTerm: as they say.
    """
    answer = await tx.value(_QUERIES["grant"], **given.model_dump(exclude={"task_id"}))
    return bool(answer["made"])


async def adjust(tx: Tx, given: AmountGiven) -> bool:
    """Correct by a compensating entry, once for each key; False when this very one was made before.

    Raises:
        NoSuchRow: no such account that pays, or no such generation.
        AdjustmentExceeded: more than the generation was charged would be given back.
        Overdraft: more would be taken than is available.
        WrongCounterpart: the generation is another account's.
        KeyReused, AmountOutOfRange, ReasonMissing: as they say.
    """
    answer = await tx.value(_QUERIES["adjust"], **given.model_dump(exclude={"cause", "expires_at"}))
    return bool(answer["made"])


async def freeze(tx: Tx, *, account_id: str, frozen: bool, reason: str, actor: str) -> bool:
    """Stop new holds of an account, or allow them again; open generations go on. False when it was so before.

    Raises:
        NoSuchRow: no such account that pays.
        ReasonMissing: no reason.
    """
    return bool(
        await tx.value(_QUERIES["freeze"], account_id=account_id, frozen=frozen, reason=reason, actor=actor)
    )


async def set_limits(
    tx: Tx, *, account_id: str, key_id: str | None, limits: Limits, reason: str, actor: str
) -> None:
    """Say what an account, or one of its keys, may use; nothing but None takes the limit away.

    Raises:
        NoSuchRow: no such account that pays, or no such key of it.
        ReasonMissing: no reason.
    """
    subject = f"account:{account_id}"
    if key_id is not None:
        subject = f"key:{key_id}"
        if await tx.value(_QUERIES["key_owner"], key_id=key_id) != account_id:
            raise NoSuchRow(f"account {account_id} has no key {key_id}")
    await tx.run(
        _QUERIES["set_limit"], subject=subject, limits=limits.model_dump_json(), reason=reason, actor=actor
    )


async def set_operator(tx: Tx, *, email: str, operates: bool, reason: str, actor: str) -> bool:
    """Let a member operate, or no more; False when it was so before.

    Raises:
        NoSuchRow: no member with this address.
        ReasonMissing: no reason.
    """
    return bool(
        await tx.value(
            _QUERIES["set_operator"], email=email.strip().lower(), operates=operates, reason=reason, actor=actor
        )
    )
