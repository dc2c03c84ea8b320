"""What operators do with cards and shares. Each is one statement that keeps its act, or changes nothing."""

from infra.db import Reader, Tx, load
from workflows.contracts.message import Message
from workflows.domain.placement.fleet import Share

_QUERIES = load("infra.fleet")


class ObservedMemory(Message):
    """Memory that runs of a model and mode were seen to take.

    Attributes:
        model_id: The model.
        mode: Its mode.
        runs: How many were seen.
        peak_mib: The highest. MiB.
        oom: How often memory was not enough.
        suggested_mib: A budget that would have been enough each time: a tenth above the highest seen, and twice
            that tenth above what was not enough. MiB.
    """

    model_id: str
    mode: str
    runs: int
    peak_mib: int
    oom: int
    suggested_mib: int


async def cordon(tx: Tx, name: str, *, cordoned: bool, reason: str, actor: str) -> int:
    """Stop new work on the cards of this uuid, label or host, or allow it again; what runs goes on.

    Returns:
        How many were otherwise before.

    Raises:
        NoSuchRow: no such card.
        ReasonMissing: no reason.
    """
    return int(await tx.value(_QUERIES["cordon"], name=name, on=cordoned, reason=reason, actor=actor))


async def quarantine(tx: Tx, name: str, *, quarantined: bool, reason: str, actor: str) -> int:
    """Put cards into quarantine, until a canary passes on each, or take them out without one.

    Returns:
        How many were otherwise before.

    Raises:
        NoSuchRow: no such card.
        ReasonMissing: no reason.
    """
    return int(await tx.value(_QUERIES["quarantine"], name=name, on=quarantined, reason=reason, actor=actor))


async def set_share(tx: Tx, *, account_id: str, share: Share, reason: str, actor: str) -> None:
    """Set what an account may have of the fleet beside others.

    Raises:
        NoSuchRow: no such account that pays.
        ReasonMissing: no reason.
    """
    await tx.run(
        _QUERIES["set_share"],
        account_id=account_id,
        weight=share.weight,
        on_cards_max=share.in_flight_max,
        reason=reason,
        actor=actor,
    )


async def observed_memory(reader: Reader) -> tuple[ObservedMemory, ...]:
    """What was seen, for who sets budgets."""
    return tuple(ObservedMemory.model_validate(row) for row in await reader.all(_QUERIES["observed_memory"]))
