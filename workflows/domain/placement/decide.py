"""The decision itself. The placer in production and the simulator run this same function."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from workflows.contracts import timeouts
from workflows.domain.placement.state import Assignment, CardState, Ticket


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided in one look.

    Attributes:
        assignments: In the order in which they were decided; each card and each task at most once.
        reasons: For each task that still waits, why: each card's refusals in words, as `cpu-0: busy`.
    """

    assignments: tuple[Assignment, ...]
    reasons: dict[str, tuple[str, ...]]


def decide(
    now: datetime,
    cards: Sequence[CardState],
    waiting: Sequence[Ticket],
    *,
    served: Mapping[str, datetime] | None = None,
    fresh: timedelta = timeouts.REPORT_FRESH,
) -> Decision:
    """Give free and fitting cards to waiting generations.

    Accounts take turns; within an account the oldest goes first. A ticket that fits no card
    doesn't hold up those behind it. Of several fitting cards the smallest is taken, so that large
    ones stay free for who needs them. A card that the ticket came back from is its last
    choice: a host may report a card and never take its work.

    Args:
        now: The moment of the look; only compared with the cards' reports.
        cards: All known cards.
        waiting: All waiting generations, in any order.
        served: When each account was last given a card; without it accounts only take turns within one look.
        fresh: A card whose last report is older takes nothing.
    """
    closed = {card.uuid: reason for card in cards if (reason := _closed(card, now, fresh)) is not None}
    free = {card.uuid: card for card in cards if card.uuid not in closed}
    assignments: list[Assignment] = []
    reasons: dict[str, tuple[str, ...]] = {}
    for ticket in take_turns(waiting, served or {}):
        fitting = [card for card in free.values() if _unfit(card, ticket) is None]
        if not fitting:
            reasons[ticket.task_id] = _why_not(ticket, cards, closed, free)
            continue
        card = min(fitting, key=partial(_preference, ticket))
        del free[card.uuid]
        assignments.append(Assignment(task_id=ticket.task_id, card_uuid=card.uuid))
    return Decision(assignments=tuple(assignments), reasons=reasons)


def take_turns(waiting: Iterable[Ticket], served: Mapping[str, datetime]) -> list[Ticket]:
    """Each account's oldest first, accounts in turns.

    A round is opened by whoever waits longest since its last turn, so that with a single card
    somebody's hundred tickets delay another's first one by one run at most.
    """
    queues: dict[str, deque[Ticket]] = {}
    for ticket in sorted(waiting, key=lambda each: (each.enqueued_at, each.task_id)):
        queues.setdefault(ticket.account_id, deque()).append(ticket)

    def waits_since(account: str) -> datetime:
        oldest = queues[account][0].enqueued_at
        return max(oldest, served.get(account, oldest))

    ordered: list[Ticket] = []
    turns = sorted(queues, key=waits_since)
    while turns:
        ordered.extend(queues[account].popleft() for account in turns)
        turns = [account for account in turns if queues[account]]
    return ordered


def _preference(ticket: Ticket, card: CardState) -> tuple[bool, int, str]:
    return (card.uuid in ticket.came_back_from, card.vram_total_mib, card.uuid)


def _closed(card: CardState, now: datetime, fresh: timedelta) -> str | None:
    """Why the card takes nothing from anybody now; None when it is free."""
    if card.cordoned:
        return "cordoned"
    if now - card.reported_at > fresh:
        return "its host is silent"
    if card.busy:
        return "busy"
    return None


def _unfit(card: CardState, ticket: Ticket) -> str | None:
    """Why the card can't take this ticket, free or not; None when it fits."""
    if ticket.capability not in card.capabilities:
        return f"no {ticket.capability}"
    if ticket.engine not in card.engines:
        return f"no {ticket.engine} engine"
    if card.vram_total_mib < ticket.vram_budget_mib:
        return f"{card.vram_total_mib} MiB of {ticket.vram_budget_mib} MiB needed"
    return None


def _why_not(
    ticket: Ticket, cards: Sequence[CardState], closed: dict[str, str], free: dict[str, CardState]
) -> tuple[str, ...]:
    if not cards:
        return ("no card is known",)
    return tuple(
        f"{card.label}: "
        + (
            _unfit(card, ticket)
            or closed.get(card.uuid)
            or ("free" if card.uuid in free else "given to an earlier one")
        )
        for card in cards
    )
