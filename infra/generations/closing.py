"""How a generation ends: what was delivered is paid, or the hold goes back. Never both, never neither."""

from typing import Any

from infra.db import Tx, load
from workflows.contracts.generation import Closing, Release, Settle

_QUERIES = load(__package__)


async def settle(tx: Tx, order: Settle) -> Closing:
    """Post the hold, end the lease, complete the generation, tell; one statement.

    Repeated, and after a release, it answers what was booked first: compare `credit_status`.

    Raises:
        ContradictoryClosing: it was settled before, with another amount.
        HoldExceeded: more credits than were held.
        NoSuchRow: no such generation.
    """
    answer = await tx.value(_QUERIES["settle"], task_id=order.task_id, credits=order.credits, actor=order.actor)
    return _closing(order.task_id, answer)


async def release(tx: Tx, order: Release) -> Closing:
    """Void the hold, end the lease, remove the ticket, end the generation, tell; one statement.

    Repeated, with another status, and after a settle, it answers what was booked first.

    Raises:
        IllegalTransition: `order.status` is not an end without a result.
        NoSuchRow: no such generation.
    """
    answer = await tx.value(
        _QUERIES["release"],
        task_id=order.task_id,
        status=order.status,
        failure=order.failure.model_dump_json(),
        actor=order.actor,
    )
    return _closing(order.task_id, answer)


def _closing(task_id: str, answer: dict[str, Any]) -> Closing:
    return Closing(
        task_id=task_id,
        status=answer["status"],
        credit_status=answer["credit_status"],
        balance_credits=answer["balance"],
        charged_credits=answer["charged"],
    )
