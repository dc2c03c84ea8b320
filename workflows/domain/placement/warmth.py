"""On how many cards a model should be loaded, and which idle cards to load it on. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workflows.domain.placement.fleet import Card, Standing, Work
from workflows.domain.placement.residency import Loading, loading, unfit

NOT_WORTH = 0.25
"""A part of a card's time that is no reason to keep one more warm."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many came of a model in the two halves of the last while: the earlier, and the one that ends now."""

    earlier: int = 0
    recent: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A model that is to stay loaded on `wanted` cards; `work` is that of its first mode."""

    model_id: str
    work: Work
    wanted: int


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Load a model on an idle card."""

    model_id: str
    card_uuid: str


def cards_wanted(arrivals: Arrivals, *, half_s: float, run_s: float, least: int, most: int) -> int:
    """Cards that the next arrivals will keep busy: their rate, a rise going on as it did, times a run's seconds.

    Args:
        arrivals: Of the model.
        half_s: Seconds of each half.
        run_s: Seconds of a run on a warm card.
        least: The manifest's.
        most: Cards that could run it; no more are ever wanted.
    """
    rise = max(arrivals.recent - arrivals.earlier, 0)
    busy = (arrivals.recent + rise) / half_s * run_s
    return min(max(least, math.ceil(busy - NOT_WORTH)), most)


def able(cards: Sequence[Card], work: Work) -> list[Card]:
    """Cards that could run it, busy or not."""
    return [card for card in cards if card.standing is Standing.OPEN and unfit(card, work) is None]


def warm(cards: Sequence[Card], work: Work) -> list[Card]:
    """Those of them on which all that it uses is loaded."""
    return [card for card in able(cards, work) if _names(work) <= _loaded(card)]


def warm_ups(targets: Sequence[Target], cards: Sequence[Card], under_way: Collection[WarmUp]) -> list[WarmUp]:
    """What to load on which idle cards. Those on which least is unloaded and loading is shortest come first.

    Nothing is unloaded that another model is to keep there.

    Args:
        targets: What is wanted.
        cards: Those that report.
        under_way: Begun before; each counts as done.
    """
    found: list[WarmUp] = []
    spare = _spare(targets, cards)
    for target in sorted(targets, key=lambda one: one.model_id):
        names = _names(target.work)
        if not names or target.work.cards > 1:
            continue  # a gang's canary would load one card only
        there = {card.uuid for card in warm(cards, target.work)}
        there |= {one.card_uuid for one in under_way if one.model_id == target.model_id}
        taken = {one.card_uuid for one in (*under_way, *found)}
        ways: list[tuple[int, float, str, Loading]] = []
        for card in able(cards, target.work):
            plan = None if card.busy_until is not None else loading(card, target.work)
            if plan is not None and card.uuid not in there | taken:
                ways.append((len(plan.evict), plan.seconds, card.uuid, plan))
        for _, _, uuid, plan in sorted(ways, key=lambda way: way[:3]):
            gone = Counter(each.name for each in plan.evict)
            if len(there) >= target.wanted:
                break
            if all(spare.get(name, 1) > 0 for name in gone):
                spare.subtract({name: 1 for name in gone if name in spare})
                there.add(uuid)
                found.append(WarmUp(target.model_id, uuid))
    return found


def _spare(targets: Sequence[Target], cards: Sequence[Card]) -> Counter[str]:
    """By resident of a target: cards that have it beyond what is wanted."""
    wanted: Counter[str] = Counter()
    for target in targets:
        for name in _names(target.work):
            wanted[name] = max(wanted[name], target.wanted)
    there = Counter(name for card in cards for name in _loaded(card))
    return Counter({name: there[name] - count for name, count in wanted.items()})


def _names(work: Work) -> frozenset[str]:
    return frozenset(part.name for part in work.residents)


def _loaded(card: Card) -> frozenset[str]:
    return frozenset(part.name for part in card.residents)
