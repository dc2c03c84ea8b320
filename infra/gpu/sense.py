"""Whether what a card tells can be. What can't is refused: its last good figures stand, and it is said."""

import math
from collections.abc import Iterator
from dataclasses import replace

from infra.gpu.inventory import Card

MEMORY_MIB_MAX = 16 * 1024 * 1024
"""16 TiB; the largest card has 0.3."""
TEMPERATURES_C = (-50, 150)
POWER_W_MAX = 5000.0
"""The hungriest card takes 1,400."""
CLOCK_SLACK_S = 2.0
"""How far a host's clock may be set back unnoticed: time servers correct by less."""


class Sense:
    """Judges sample after sample of one host's cards."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._good: dict[str, Card] = {}
        self._seen_at: float | None = None

    def judge(self, cards: tuple[Card, ...], *, at: float) -> tuple[Card, ...]:
        """The cards, each with its last good figures where the new ones can't be; `nonsense` says what was wrong.

        A card that never told anything good is shown with no memory, so that nothing fits it.

        Args:
            cards: A sample.
            at: The host's clock, in unix seconds. A sample that is older than the one before it is refused.
        """
        back_s = 0.0 if self._seen_at is None else self._seen_at - at
        self._seen_at = at
        late = (f"a clock that went back by {back_s:.0f} s",) if back_s > CLOCK_SLACK_S else ()
        return tuple(self._judged(card, late) for card in cards)

    def _judged(self, card: Card, late: tuple[str, ...]) -> Card:
        wrong = late + tuple(impossible(card))
        if not wrong:
            self._good[card.uuid] = card
            return card
        good = self._good.get(card.uuid)
        if good is None:
            good = Card(card.uuid, card.label, card.model, memory_total_mib=0, memory_free_mib=0)
        return replace(good, nonsense=wrong)


def impossible(card: Card) -> Iterator[str]:
    """What can't be in a sample, as sentences."""
    total, free = card.memory_total_mib, card.memory_free_mib
    if not 0 < total <= MEMORY_MIB_MAX:
        yield f"a memory of {total} MiB"
    elif not 0 <= free <= total:
        yield f"{free} of {total} MiB free"
    elif not 0 <= card.foreign_mib <= total:
        yield f"{card.foreign_mib} of {total} MiB foreign"
    if not _within(card.utilisation, 0, 1):
        yield f"a utilisation of {card.utilisation}"
    if not _within(card.temperature_c, *TEMPERATURES_C):
        yield f"a temperature of {card.temperature_c} °C"
    if not _within(card.power_w, 0, POWER_W_MAX):
        yield f"a power of {card.power_w} W"
    if not _within(card.ecc_errors, 0, math.inf):
        yield f"{card.ecc_errors} memory errors"


def _within(value: float | None, least: float, most: float) -> bool:
    return value is None or (not math.isnan(value) and least <= value <= most)
