"""Looks at cards: often while something runs on one, seldom otherwise; and measures the memory of runs."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from activities.card_desk import Measured
from infra.gpu.inventory import Card, Inventory
from infra.gpu.sense import Sense

RUNNING_S = 0.2
"""Between looks while something runs: a peak that lasts less may be missed."""
IDLE_S = 1.0
"""Between looks otherwise: as often as is reported."""
FRESH_S = 5.0
"""What was seen longer ago isn't told any more: a driver may hang, and its cards with it."""

log = structlog.get_logger(__name__)


class Watch:
    """Looks at the cards of one inventory, in a thread of its own: one that hangs must not stop the others."""

    def __init__(self, inventory: Inventory, *, clock: Callable[[], float] = time.time) -> None:
        """See nothing yet.

        Args:
            inventory: Where cards are looked up.
            clock: Of the host; it may jump, which is judged as nonsense. Nothing is timed by it.
        """
        self.inventory = inventory
        self._sense = Sense()
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self._cards: tuple[Card, ...] = ()
        self._seen_at: float | None = None
        self._first = asyncio.Event()
        self._wake = asyncio.Event()

    def meter(self, card_uuid: str) -> "Meter":
        """What measures the runs of a card."""
        return self._meters.setdefault(card_uuid, Meter(self._wake))

    async def cards(self) -> tuple[Card, ...]:
        """As they were seen last; none when that was too long ago. Waits for the first look."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), FRESH_S)
        is_fresh = self._seen_at is not None and time.monotonic() - self._seen_at < FRESH_S
        return self._cards if is_fresh else ()

    async def run(self) -> None:
        """Look until canceled."""
        while True:
            self._wake.clear()
            began = time.monotonic()
            measuring = [uuid for uuid, meter in self._meters.items() if meter.is_running]
            cards, ours = await asyncio.to_thread(self._look, measuring)
            self._take(cards)
            for uuid, mib in ours.items():
                self._meters[uuid].take(mib)
            pause_s = RUNNING_S if measuring else IDLE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, pause_s - (time.monotonic() - began))):
                    await self._wake.wait()

    def _look(self, measuring: list[str]) -> tuple[tuple[Card, ...], dict[str, int | None]]:
        return self.inventory.cards(), {uuid: self.inventory.ours_mib(uuid) for uuid in measuring}

    def _take(self, cards: tuple[Card, ...]) -> None:
        before = {card.uuid: card.nonsense for card in self._cards}
        self._cards = self._sense.judge(cards, at=self._clock())
        for card in self._cards:
            if card.nonsense and card.nonsense != before.get(card.uuid):
                log.warning("card_tells_nonsense", card=card.uuid, what=card.nonsense)
        self._seen_at = time.monotonic()
        self._first.set()


class Meter:
    """Measures the memory that one run after the other takes on a card. See `activities.card_desk.RunMeter`."""

    def __init__(self, wake: asyncio.Event) -> None:
        """Measure nothing yet."""
        self._wake = wake
        self._baseline: int | None = None
        self._peak: int | None = None
        self._looks = 0
        self.is_running = False

    def begin(self) -> None:
        """A run begins: the next look, which comes at once, is its baseline."""
        self._baseline = self._peak = None
        self._looks = 0
        self.is_running = True
        self._wake.set()

    def end(self) -> Measured | None:
        """The run is over; None when nothing could be measured."""
        self.is_running = False
        if self._baseline is None or self._peak is None:
            return None
        return Measured(baseline_mib=self._baseline, peak_mib=self._peak, looks=self._looks)

    def take(self, mib: int | None) -> None:
        """One look."""
        if mib is not None and self.is_running:
            self._looks += 1
            self._baseline = mib if self._baseline is None else self._baseline
            self._peak = mib if self._peak is None else max(self._peak, mib)
