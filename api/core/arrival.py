"""Who creates, and what is known of the operation: one look into the database, before any byte of the body."""

import time
from dataclasses import dataclass

from fastapi import Request

from api.auth.caller import Caller, authenticated, known, proof, refuse_viewer
from api.core.operation import insists, operation_id
from api.deadlines import READ, answer_within
from api.errors import ApiError, away
from api.parts import parts_of
from infra import generations
from infra.db import DatabaseAway
from infra.generations import Preflight

FRESH_S = 1.0
"""A body that takes longer to come makes what was read before it old; it is read again then."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A creation before its body.

    Attributes:
        caller: May create.
        operation_id: The caller's id of the operation.
        seen: What the database said.
        seen_at: When, by the process's monotonic clock.
        insists: True when it is to be a task of its own, whatever the caller asked for a moment ago.
    """

    caller: Caller
    operation_id: str
    seen: generations.Arrival
    seen_at: float
    insists: bool = False

    def preflight(self, model_id: str) -> Preflight | None:
        """Balance, limits and what is known of the operation; None once that is old."""
        if time.monotonic() - self.seen_at > FRESH_S:
            return None
        return self.seen.preflight(model_id)


async def arrive(request: Request) -> Arrival:
    """Look once.

    Raises:
        ApiError: 401 without a valid session or key, 403 for viewers, 400 without an operation id, in this order.
    """
    try:
        operation = operation_id(request)
        own = insists(request)
    except ApiError:
        refuse_viewer(await authenticated(request))  # who calls is judged before what he says
        raise
    shown, parts = proof(request), parts_of(request)
    try:
        async with answer_within(READ), parts.database.read() as reader:
            seen = await generations.arrival(
                reader,
                member_id=shown.member_id,
                key=shown.key,
                operation_id=operation,
                duplicate_window_s=0 if own else parts.settings.duplicate_window_s,
            )
    except DatabaseAway as error:
        unread = away("database")
        unread.operation_id = operation
        raise unread from error
    caller = known(request, seen.who if seen else None)
    refuse_viewer(caller)
    if seen is None:
        raise AssertionError("a caller without an arrival was let in")
    return Arrival(caller, operation, seen, time.monotonic(), own)
