"""What becomes of an offered card: accepted, given back, lapsed."""

from infra.db import Tx, load
from workflows.contracts.generation import AcceptLease, Requeue

_QUERIES = load(__package__)

PLACE_CHANNEL = "holdfast_place"
"""Notified when somebody begins to wait or a card may have become free."""
OUTBOX_CHANNEL = "holdfast_outbox"
"""Notified when an offer's message stands in the outbox."""


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
