"""What a request costs, frozen when it is admitted: a later manifest can't change it."""

from workflows.contracts.message import Message

UNIT = "credit"
"""Prices are whole credits. There is no smaller unit, and no currency."""


class PriceLine(Message):
    """One reason for the price: `count` units at `each` credits.

    Attributes:
        what: The unit, as `output_megapixel`; a begun one counts whole.
        count: Units, over all outputs.
        each: Credits for one.
    """

    what: str
    count: int
    each: int

    @property
    def credits(self) -> int:
        """What the line costs."""
        return self.count * self.each


class PriceTerms(Message):
    """The price of a request, output by output. It travels with the request, so it says little.

    Attributes:
        unit: Of every figure.
        per_output: Credits of each output asked for, in order; each is paid only when it is delivered.
        lines: The same sum by reason.
    """

    unit: str = UNIT
    per_output: tuple[int, ...]
    lines: tuple[PriceLine, ...] = ()

    @property
    def total(self) -> int:
        """What is held."""
        return sum(self.per_output)
