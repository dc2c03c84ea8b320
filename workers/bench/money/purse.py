"""What one account should have, kept without a database: the model beside which the ledger is checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(eq=False, slots=True)
class Lot:
    """Credits with an expiry.

    Attributes:
        date: Lots expire in this order,
        number: and of the same date, in the order in which they were made.
        remaining: Neither held nor gone.
        drawn: Held.
        spent: Paid.
        expired: Lost.
        due: Whether its date has passed.
    """

    date: int
    number: int
    remaining: int
    drawn: int = 0
    spent: int = 0
    expired: int = 0
    due: bool = False

    @property
    def parts(self) -> list[int]:
        """Where the amount is: remaining, held, paid, lost."""
        return [self.remaining, self.drawn, self.spent, self.expired]

    def lose(self) -> None:
        """What remains of a lot past its date is lost."""
        self.expired += self.remaining
        self.remaining = 0


class Draw(NamedTuple):
    """What a hold took of one lot."""

    lot: Lot
    amount: int


@dataclass(slots=True)
class Purse:
    """One account.

    Attributes:
        plain: Credits that never expire and aren't held.
        lots: Those that do.
        frozen: Whether it may hold anything.
        in_flight_max: Of its limit; None without one.
        credits_per_day: Of its limit; None without one.
    """

    plain: int = 0
    lots: list[Lot] = field(default_factory=list)
    frozen: bool = False
    in_flight_max: int | None = None
    credits_per_day: int | None = None

    @property
    def available(self) -> int:
        """What can be held now. A lot past its date counts for nothing, swept or not."""
        return self.plain + sum(lot.remaining for lot in self.lots if not lot.due)

    def promise(self, amount: int, date: int) -> None:
        """Credits that expire."""
        self.lots.append(Lot(date, len(self.lots), amount))

    def pass_date(self, date: int) -> None:
        """Let the dates up to this one be over."""
        for lot in self.lots:
            lot.due = lot.due or lot.date <= date

    def sweep(self) -> None:
        """Book what is past its date as lost."""
        for lot in self.lots:
            if lot.due:
                lot.lose()

    def hold(self, price: int) -> list[Draw]:
        """Take credits, those first that expire first; the rest from what never does."""
        self.sweep()
        draws = []
        left = price
        for lot in sorted(self.lots, key=_order):
            taken = min(left, lot.remaining)
            if taken:
                lot.remaining -= taken
                lot.drawn += taken
                left -= taken
                draws.append(Draw(lot, taken))
        self.plain -= left
        return draws

    def end(self, draws: list[Draw], *, price: int, paid: int) -> None:
        """End a hold: pay from what expires first, and give the rest back to where it came from."""
        self.plain += price - sum(draw.amount for draw in draws)
        left = paid
        for draw in sorted(draws, key=lambda draw: _order(draw.lot)):
            spent = min(left, draw.amount)
            left -= spent
            draw.lot.drawn -= draw.amount
            draw.lot.spent += spent
            draw.lot.remaining += draw.amount - spent
        self.plain -= left
        self.sweep()

    def differs(self, available: int, lots: Sequence[Sequence[int]]) -> str:
        """What of the ledger's figures isn't so, as text; empty when all are.

        Args:
            available: What the account's counters leave.
            lots: Of each lot as made: remaining, drawn, spent, expired. What remains past its date may be
                booked as lost or not yet: either way nobody has it.
        """
        told = []
        for lot, (remaining, *others) in zip(self.lots, lots, strict=True):
            if lot.due:
                available -= remaining
                others[-1] += remaining
            told.append([0 if lot.due else remaining, *others])
        own = [[0, x.drawn, x.spent, x.expired + x.remaining] if x.due else x.parts for x in self.lots]
        if (available, told) == (self.available, own):
            return ""
        return f"the ledger has {available} {told}, the model {self.available} {own}"


def _order(lot: Lot) -> tuple[int, int]:
    return lot.date, lot.number
