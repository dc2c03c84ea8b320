"""Giving cards to generations: what placement sees, offers, and what becomes of them."""

from infra.db import Reader, Tx, load
from workflows.contracts import timeouts
from workflows.contracts.generation import AcceptLease, Requeue
from workflows.domain.placement.state import Assignment, CardState, Ticket

_QUERIES = load(__package__)

PLACE_CHANNEL = "holdfast_place"
"""Notified when somebody begins to wait or a card may have become free."""
OUTBOX_CHANNEL = "holdfast_outbox"
"""Notified when an offer's message stands in the outbox."""


async def snapshot(reader: Reader) -> tuple[tuple[CardState, ...], tuple[Ticket, ...]]:
    """All cards and all who wait, in order. Decisions on it are checked again by `offer`."""
    cards = await reader.all(_QUERIES["cards"])
    tickets = await reader.all(_QUERIES["tickets"])
    return (
        tuple(
            CardState(
                uuid=card["uuid"],
                label=card["label"],
                engines=frozenset(card["engines"]),
                capabilities=frozenset(card["capabilities"]),
                vram_total_mib=card["vram_total_mib"],
                reported_at=card["last_report_at"],
                cordoned=card["cordoned"],
                busy=card["busy"],
            )
            for card in cards
        ),
        tuple(Ticket(**{**ticket, "came_back_from": frozenset(ticket["came_back_from"])}) for ticket in tickets),
    )


async def offer(tx: Tx, assignment: Assignment) -> bool:
    """Offer the card: ticket out, lease in, message in the outbox; False when either was gone. One statement."""
    grant = await tx.value(
        _QUERIES["offer"],
        task_id=assignment.task_id,
        card_uuid=assignment.card_uuid,
        fresh=timeouts.REPORT_FRESH,
        offer=timeouts.OFFER,
    )
    return grant is not None


async def accept(tx: Tx, order: AcceptLease) -> bool:
    """Accept an offer; False when it lapsed, was withdrawn, or the generation is over. One statement."""
    accepted = await tx.value(
        _QUERIES["accept"],
        task_id=order.task_id,
        lease_id=order.lease.lease_id,
        fence=order.lease.fence,
    )
    return bool(accepted)


async def requeue(tx: Tx, order: Requeue) -> bool:
    """End a lease under which nothing ran and wait again, at the old place; True also when done before.

    False, and nothing changed, when it may have run: the order was fetched and `never_ran` isn't claimed; or
    when the generation is over.
    """
    waits = await tx.value(
        _QUERIES["requeue"],
        task_id=order.task_id,
        lease_id=order.lease.lease_id,
        never_ran=order.never_ran,
    )
    return bool(waits)


async def lapse(tx: Tx) -> int:
    """End offers that nobody accepted in time and bring their tickets back; how many."""
    return int(await tx.value(_QUERIES["lapse"]))


async def withdraw(tx: Tx, task_id: str) -> None:
    """Take a generation out of the queue and off its card. `release` and `settle` do this themselves."""
    if await tx.one(_QUERIES["lock_generation"], task_id=task_id) is not None:
        await tx.one(_QUERIES["withdraw"], task_id=task_id, reason="withdrawn")
