"""What a request costs: whole credits, known before anything is held."""

from collections.abc import Iterable

from workflows.contracts.media import MediaContract
from workflows.domain.manifest import Price

MEGAPIXEL = 1_000_000
"""Pixels; prices count begun ones."""


def price(rule: Price, outputs: Iterable[MediaContract]) -> int:
    """Credits for `outputs`: the base once, and each output's begun megapixels."""
    begun = sum(-(-output.width * output.height // MEGAPIXEL) for output in outputs)
    return rule.base + rule.per_output_megapixel * begun
