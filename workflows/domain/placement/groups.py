"""Cards by group: what fits one of a group fits each other at the same price, so a decision looks at groups."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from workflows.domain.placement.fleet import Card, Standing, Work
from workflows.domain.placement.residency import Loading, loading, unfit

GroupKey = tuple[object, ...]
PLANS_MAX = 200_000
"""Remembered plans, some 100 bytes each. Beyond, all are forgotten, and what is needed is made again."""


@dataclass(slots=True)
class Group:
    """Cards that take new work and are alike in ability and contents.

    Attributes:
        sample: One of them.
        free: Those that are free, in the order in which they became so.
        busy: Those that aren't.
        ends: When the busy ones are expected to be free. Entries of cards that left are dropped when met.
    """

    sample: Card
    free: dict[str, None] = field(default_factory=dict)
    busy: dict[str, None] = field(default_factory=dict)
    ends: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Kind:
    """Cards of equal abilities, whatever is loaded on them."""

    sample: Card
    number: int = 0


class Groups:
    """All cards."""

    def __init__(self) -> None:
        """No card yet."""
        self.cards: dict[str, Card] = {}
        self.groups: dict[GroupKey, Group] = {}
        self._kinds: dict[GroupKey, _Kind] = {}
        self._able: dict[str, int] = {}
        self._plans: dict[tuple[str, GroupKey], Loading | str] = {}
        self._warm: dict[str, int] = {}

    def put(self, card: Card) -> None:
        """A card is new, or otherwise than before."""
        before = self.cards.get(card.uuid)
        if before is not None:
            self._take_out(before)
        self._count(before, card)
        self.cards[card.uuid] = card
        if card.standing is not Standing.OPEN:
            return
        group = self.groups.setdefault(group_key(card), Group(card))
        if card.busy_until is None:
            group.free[card.uuid] = None
        else:
            group.busy[card.uuid] = None
            heapq.heappush(group.ends, (card.busy_until, card.uuid))

    def drop(self, uuid: str) -> None:
        """A card is gone."""
        card = self.cards.pop(uuid, None)
        if card is not None:
            self._take_out(card)
            self._count(card, None)

    def able(self, work: Work) -> int:
        """How many cards could do this work, free or not."""
        count = self._able.get(work.key)
        if count is None:
            count = sum(kind.number for kind in self._kinds.values() if unfit(kind.sample, work) is None)
            self._able[work.key] = count
        return count

    def plan(self, card: Card, work: Work) -> Loading | str:
        """How the card would be made ready for the work, or in words why it can't be."""
        key = (work.key, group_key(card))
        found = self._plans.get(key)
        if found is None:
            found = unfit(card, work) or loading(card, work) or "its residents leave no room"
            if len(self._plans) > PLANS_MAX:
                self._plans.clear()
            self._plans[key] = found
        return found

    def with_free(self) -> Iterator[GroupKey]:
        """Groups that have a free card."""
        return (key for key, group in self.groups.items() if group.free)

    def warm(self, resident: str) -> int:
        """On how many cards a resident is."""
        return self._warm.get(resident, 0)

    def warm_and_busy(self, work: Work) -> tuple[float, int]:
        """When the first busy card without loading for the work is expected to be free, and how many those are."""
        soonest, warm = float("inf"), 0
        for group in self.groups.values():
            if group.busy:
                plan = self.plan(group.sample, work)
                if not isinstance(plan, str) and plan.seconds == 0:
                    warm += len(group.busy)
                    soonest = min(soonest, self._first_end(group))
        return soonest, warm

    def _first_end(self, group: Group) -> float:
        while group.ends:
            end, uuid = group.ends[0]
            if uuid in group.busy and self.cards[uuid].busy_until == end:
                return end
            heapq.heappop(group.ends)
        return float("inf")

    def _take_out(self, card: Card) -> None:
        key = group_key(card)
        group = self.groups.get(key)
        if group is None:
            return
        group.free.pop(card.uuid, None)
        group.busy.pop(card.uuid, None)
        if not group.free and not group.busy:
            del self.groups[key]

    def _count(self, before: Card | None, after: Card | None) -> None:
        """Keep how many cards of each kind there are, and on how many each resident is."""
        for card, step in ((before, -1), (after, 1)):
            for resident in card.residents if card is not None else ():
                self._warm[resident.name] = self._warm.get(resident.name, 0) + step
        old, new = (None if card is None else _kind_key(card) for card in (before, after))
        if old == new:
            return
        self._able.clear()
        if old is not None:
            self._kinds[old].number -= 1
            if not self._kinds[old].number:
                del self._kinds[old]
        if after is not None and new is not None:
            self._kinds.setdefault(new, _Kind(after)).number += 1


def group_key(card: Card) -> GroupKey:
    """Equal for cards that are alike."""
    return (*_kind_key(card), tuple(each.name for each in card.residents), card.pinned)


def _kind_key(card: Card) -> GroupKey:
    return (card.capabilities, card.engines, card.total_mib, card.foreign_mib)
