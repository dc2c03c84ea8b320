"""Queue truth: each waiting generation's position, when it is expected to start, and why not yet, in words."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from workflows.domain.placement.fleet import Card, Standing, Waiting, Work
from workflows.domain.placement.pool import Pool
from workflows.domain.placement.residency import unfit

_BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a waiting generation can be told.

    Attributes:
        position: 1 for who is next among those that wait for cards that it could use.
        eta_s: Seconds until it is expected to start; None when no card that is there could take it.
    """

    position: int
    eta_s: float | None


def forecast(pool: Pool, now: float, *, first: int = 2_000) -> dict[str, Forecast]:
    """Lay the waiting out over the cards in their order, by expected run times.

    Args:
        pool: Everything that waits and runs.
        now: The moment.
        first: How many of the order are laid out; those behind it get no forecast, as it would be a guess.
    """
    kinds = _Kinds(pool, now)
    ahead: Counter[frozenset[int]] = Counter()
    told: dict[str, Forecast] = {}
    for waiting in pool.order(first):
        usable = kinds.usable(waiting.work)
        position = 1 + sum(count for others, count in ahead.items() if others & usable)
        ahead[usable] += 1
        start = kinds.take(usable, waiting.work)
        told[waiting.task_id] = Forecast(position, None if start is None else max(start - now, 0.0))
    return told


class _Kinds:
    """Cards of equal abilities, each as the moments at which they are expected to be free."""

    def __init__(self, pool: Pool, now: float) -> None:
        self._samples: list[Card] = []
        self._free_at: list[list[float]] = []
        self._usable: dict[str, frozenset[int]] = {}
        index: dict[tuple[object, ...], int] = {}
        for card in pool.cards.values():
            if card.standing is not Standing.OPEN or now - card.reported_at > pool.policy.fresh_s:
                continue
            key = (card.capabilities, card.engines, card.total_mib, card.foreign_mib, card.pinned)
            if key not in index:
                index[key] = len(self._samples)
                self._samples.append(card)
                self._free_at.append([])
            self._free_at[index[key]].append(now if card.busy_until is None else max(card.busy_until, now))
        for moments in self._free_at:
            heapq.heapify(moments)

    def usable(self, work: Work) -> frozenset[int]:
        """The kinds that the work fits on."""
        found = self._usable.get(work.key)
        if found is None:
            found = frozenset(number for number, sample in enumerate(self._samples) if unfit(sample, work) is None)
            self._usable[work.key] = found
        return found

    def take(self, usable: frozenset[int], work: Work) -> float | None:
        """Put the work on the card that is free first, or for a gang on the first of its kind; when it starts."""
        fitting = [number for number in usable if len(self._free_at[number]) >= work.cards]
        if not fitting:
            return None
        moments = self._free_at[min(fitting, key=lambda number: (self._free_at[number][0], number))]
        start = max(heapq.heappop(moments) for _ in range(work.cards))
        for _ in range(work.cards):
            heapq.heappush(moments, start + work.run_s)
        return start


def why_not_yet(pool: Pool, task_ids: Iterable[str], now: float) -> dict[str, tuple[str, ...]]:
    """Why generations still wait: sentences for people, the most telling first."""
    by_line: dict[str, tuple[str, ...]] = {}
    told = {}
    for task_id in task_ids:
        waiting = pool.tickets[task_id].waiting
        if waiting.work.key not in by_line:
            by_line[waiting.work.key] = _cards(pool, waiting.work, now)
        told[task_id] = (*_own_limit(pool, waiting), *by_line[waiting.work.key])
    return told


def _own_limit(pool: Pool, waiting: Waiting) -> tuple[str, ...]:
    account = pool.accounts[waiting.account_id]
    if not account.at_limit:
        return ()
    return (f"Its account has {account.on_cards} on cards, its limit is {account.share.in_flight_max}.",)


def _cards(pool: Pool, work: Work, now: float) -> tuple[str, ...]:
    if not pool.cards:
        return ("No card is known.",)
    said: Counter[str] = Counter()
    soonest: float | None = None
    for card in pool.cards.values():
        reason = _why_not_this(pool, card, work, now)
        said[reason] += 1
        if reason == _BUSY and card.busy_until is not None:
            soonest = card.busy_until if soonest is None else min(soonest, card.busy_until)
    sentences = [f"{count} of {len(pool.cards)} cards: {reason}." for reason, count in said.most_common()]
    if soonest is not None:
        sentences.append(f"The first busy one is expected to be free in {max(soonest - now, 0.0):.0f} s.")
    return tuple(sentences)


def _why_not_this(pool: Pool, card: Card, work: Work, now: float) -> str:
    reason = unfit(card, work)
    if reason is None and card.standing is not Standing.OPEN:
        reason = card.standing.value
    if reason is None and now - card.reported_at > pool.policy.fresh_s:
        reason = "its host is silent"
    if reason is None and card.busy_until is not None:
        reason = _BUSY
    return reason or _why_not_this_free_one(pool, card, work)


def _why_not_this_free_one(pool: Pool, card: Card, work: Work) -> str:
    plan = pool.fleet.plan(card, work)
    if isinstance(plan, str):
        return plan
    if pool.reservation is not None and card.uuid in pool.reservation.cards:
        return "kept for work that needs several cards at once"
    if work.cards > 1:
        return f"free, but {work.cards} of one host are needed at once"
    if plan.seconds > 0:
        return f"free, but loading takes {plan.seconds:.0f} s and a warm one is expected sooner"
    return "free, and given to an earlier one"
