"""Medians, and how sure they are."""

import random
import statistics
from collections.abc import Sequence

RESAMPLES = 2_000
CONFIDENCE = 0.95


def percentile(values: Sequence[float], fraction: float) -> float:
    """The value below which this fraction lies, interpolated. `values` isn't empty."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the median by bootstrap. The seed is fixed: the same values give the same interval."""
    chance = random.Random(0)  # noqa: S311 - resampling needs no secrecy
    medians = [statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    return percentile(medians, tail), percentile(medians, 1 - tail)


def summary(seconds: Sequence[float]) -> dict[str, float | int]:
    """Count, p50, p95 and largest, in milliseconds."""
    return {
        "n": len(seconds),
        "p50_ms": round(percentile(seconds, 0.5) * 1000, 2),
        "p95_ms": round(percentile(seconds, 0.95) * 1000, 2),
        "max_ms": round(max(seconds) * 1000, 2),
    }
