"""Outcomes that nobody knows: what was looked at, what an operator decided, what is found after a release."""

from datetime import datetime
from typing import Any

from infra.db import Reader, Row, Tx, load
from workflows.contracts.evidence import Finding, LateLook, LateStep, Look, Resolve, Source
from workflows.contracts.generation import Closing
from workflows.contracts.message import Message

_QUERIES = load(__package__, "doubts.sql")


class Evidence(Message):
    """The latest answer about a run.

    Attributes:
        at: When it was given.
        source: Who gave it.
        finding: What it means.
    """

    at: datetime
    source: Source
    finding: Finding

    @property
    def is_a_look(self) -> bool:
        """Whether somebody was asked; a decision is kept among the answers, and is none."""
        return self.source is not Source.OPERATOR


class Doubt(Message):
    """What is known of an outcome that isn't known, or wasn't when it was released.

    Attributes:
        looks: How often somebody was asked.
        last: The latest answer.
        late_until: Until when a result is still looked for after a release; None where it isn't (any more).
        late_next_look_at: When it is looked for next.
        late_ending: How that search ended.
    """

    looks: int = 0
    last: Evidence | None = None
    late_until: datetime | None = None
    late_next_look_at: datetime | None = None
    late_ending: str | None = None


class UnknownOutcome(Message):
    """One line of what operators see: an open generation whose outcome nobody knows.

    Attributes:
        task_id: The generation.
        account_id: Who pays.
        operation_id: The caller's key.
        model_id: The model.
        price_credits: Held meanwhile.
        since: Since when.
        reason: Why nobody knows.
        awaiting: Which evidence would decide.
        next_look_at: When it is looked for next.
        resolve_by: When it is raised.
        raised: Whether it is.
        card_label: Of the lease in doubt.
        fence: Of that lease.
        looks: How often somebody was asked.
        last: The latest answer.
        last_asked: What was asked then, for operators.
        last_said: What was said, for operators.
    """

    task_id: str
    account_id: str
    operation_id: str
    model_id: str
    price_credits: int
    since: datetime
    reason: str
    awaiting: str | None
    next_look_at: datetime | None
    resolve_by: datetime
    raised: bool
    card_label: str | None
    fence: int | None
    looks: int
    last: Evidence | None
    last_asked: str | None
    last_said: str | None


class LateSearch(Message):
    """A search for a result that goes on after its generation was released. Its workflow is open, and right to be.

    Attributes:
        task_id: The generation.
        account_id: Who would get it.
        price_credits: What was released.
        began_at: When it was released.
        until: When the search ends.
        next_look_at: When it is looked next.
    """

    task_id: str
    account_id: str
    price_credits: int
    began_at: datetime
    until: datetime
    next_look_at: datetime


async def record_look(tx: Tx, look: Look) -> None:
    """Record a question and its answer, once for each `look_id`; one statement.

    Raises:
        NoSuchRow: no such generation.
    """
    await tx.value(_QUERIES["record_look"], look=look.model_dump_json())


async def resolve(tx: Tx, order: Resolve) -> Closing:
    """Book an operator's decision together with the record of the act; one statement.

    Raises:
        AlreadyFinal: it is over, and not by this decision.
        NothingToResolve: its outcome isn't in doubt.
        ReasonMissing: no reason, or no actor.
        HoldExceeded: more credits than were held.
    """
    answer = await tx.value(
        _QUERIES["resolve"],
        task_id=order.task_id,
        credits=order.credits,
        status=order.status,
        failure=order.failure.model_dump_json() if order.failure else None,
        reason=order.reason,
        actor=order.actor,
    )
    return _closing(order.task_id, answer)


async def closing(reader: Reader, task_id: str) -> Closing:
    """How a generation ended.

    Raises:
        AssertionError: it hasn't.
    """
    answer = await reader.value(_QUERIES["closing"], task_id=task_id)
    if answer is None:
        raise AssertionError(f"{task_id} isn't over")
    return _closing(task_id, answer)


async def late_look(reader: Reader, task_id: str) -> LateLook | None:
    """The search for a late result that is open for a generation."""
    search = await reader.value(_QUERIES["begin_late_look"], task_id=task_id)
    return None if search is None else LateLook.model_validate(search)


async def plan_late_look(tx: Tx, step: LateStep) -> None:
    """Show when the next look for a late result is."""
    await tx.run(_QUERIES["plan_late_look"], task_id=step.task_id, next_look_at=step.next_look_at)


async def end_late_look(tx: Tx, step: LateStep) -> None:
    """End the search without a delivery; ignored when it ended before."""
    await tx.value(_QUERIES["end_late_look"], task_id=step.task_id, ending=step.ending)


async def deliver_late(tx: Tx, step: LateStep) -> Closing:
    """Complete a released generation with what was kept for it, free of charge; one statement, repeatable.

    Raises:
        IllegalTransition: it wasn't released without an outcome, or nothing was kept.
    """
    answer = await tx.value(_QUERIES["deliver_late"], task_id=step.task_id, actor=step.actor)
    return _closing(step.task_id, answer)


async def doubt_of(reader: Reader, task_id: str) -> Doubt | None:
    """What is known about an outcome that isn't known."""
    row = await reader.one(_QUERIES["doubt"], task_id=task_id)
    if row is None:
        return None
    searching = row["late_ending"] is None
    return Doubt(
        looks=row["looks"],
        last=_evidence(row),
        late_until=row["late_until"] if searching else None,
        late_next_look_at=row["late_next_look_at"] if searching else None,
        late_ending=row["late_ending"],
    )


async def unknown_now(
    reader: Reader, *, limit: int, after: UnknownOutcome | None = None
) -> tuple[UnknownOutcome, ...]:
    """Open generations whose outcome nobody knows, the oldest first, those behind `after`."""
    rows = await reader.all(
        _QUERIES["unknown_now"],
        limit=limit,
        after_since=after.since if after else None,
        after_task=after.task_id if after else None,
    )
    return tuple(
        UnknownOutcome.model_validate(
            row | {"since": row["unknown_since"], "reason": row["unknown_reason"], "last": _evidence(row)}
        )
        for row in rows
    )


async def late_now(reader: Reader, *, limit: int) -> tuple[LateSearch, ...]:
    """Searches that go on after a release; each has a workflow that is open though its row is final."""
    rows = await reader.all(_QUERIES["late_now"], limit=limit)
    return tuple(LateSearch.model_validate(row) for row in rows)


def _evidence(row: Row) -> Evidence | None:
    if row["last_at"] is None:
        return None
    return Evidence(at=row["last_at"], source=row["last_source"], finding=row["last_finding"])


def _closing(task_id: str, answer: dict[str, Any]) -> Closing:
    return Closing(
        task_id=task_id,
        status=answer["status"],
        credit_status=answer["credit_status"],
        balance_credits=answer["balance"],
        charged_credits=answer["charged"],
    )
