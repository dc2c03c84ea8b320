"""Identities. Each is derived from what it names, so that a retry names the same thing."""

import base64
import hashlib
from typing import NewType

TaskId = NewType("TaskId", str)
"""`gen_` and 26 lower-case base32 characters; also the workflow's id."""

OPERATION_ID_CHARS_MAX = 200
"""Bound of a caller's operation id; Temporal refuses workflow ids over 1,000 bytes, indexes like short ones."""


def task_id(account_id: str, operation_id: str) -> TaskId:
    """The task, and the workflow, of one account's operation: 130 bits of SHA-256 over both.

    The same operation of the same account always names the same task; another account's
    operation of the same name is another task.
    """
    digest = hashlib.sha256(f"{len(account_id)}:{account_id}:{operation_id}".encode()).digest()
    return TaskId("gen_" + base64.b32encode(digest).decode().lower()[:26])


def admission_update_id(attempt: int) -> str:
    """The update id of an admission; `attempt` rises only after a refusal, so equal calls share one answer."""
    return f"admit-{attempt}"


def card_queue(card_uuid: str) -> str:
    """The task queue of one physical card."""
    return f"card.{card_uuid}"


def look_queue(card_uuid: str) -> str:
    """The queue on which a card's host answers from its journal, whatever the card itself is busy with."""
    return f"look.{card_uuid}"
