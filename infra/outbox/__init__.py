"""Messages to the outside, written in the transaction that they tell of and delivered at least once."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from infra.db import Tx, load
from workflows.contracts.message import Message

_QUERIES = load(__package__)

ERROR_CHARS_MAX = 500
"""What is kept of a delivery's error."""


class Topic(StrEnum):
    """Who a message is for."""

    ASSIGNED = "signal.assigned"
    """A workflow is offered a card. The payload is an `AcceptLease`; the key is the lease's id."""
    CLOSED = "generation.closed"
    """A generation ended. The payload has task_id, account_id, status, credit_status, charged."""
    DELIVERED_LATE = "generation.delivered_late"
    """A result was found after a release; the payload is as that of a generation that ended."""


class OutboxRow(Message):
    """One message.

    Attributes:
        id: Its number; delivery is in this order as far as possible.
        topic: Who it is for.
        key: Unique within the topic; the receiver's idempotency key.
        payload: The message.
        created_at: When its transaction wrote it.
        tries: Failed deliveries so far.
    """

    id: int
    topic: Topic
    key: str
    payload: dict[str, Any]
    created_at: datetime
    tries: int


async def take(tx: Tx, limit: int) -> tuple[OutboxRow, ...]:
    """Undelivered messages, locked until the transaction ends; two relays never get the same one at once.

    Offers that ended meanwhile count as done with.
    """
    await tx.run(_QUERIES["drop_overtaken"])
    return tuple(OutboxRow.model_validate(row) for row in await tx.all(_QUERIES["take"], limit=limit))


async def mark_done(tx: Tx, row_id: int) -> None:
    """The message was delivered."""
    await tx.run(_QUERIES["mark_done"], id=row_id)


async def mark_failed(tx: Tx, row_id: int, error: str) -> None:
    """It could not be delivered; it is tried again, later each time."""
    await tx.run(_QUERIES["mark_failed"], id=row_id, error=error[:ERROR_CHARS_MAX])
