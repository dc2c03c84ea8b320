"""Medians and how sure they are."""

import pytest

from workers.bench.statistics import median_interval, percentile, summary


def test_percentiles_are_interpolated() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)


def test_the_interval_holds_the_median_and_narrows_with_agreement() -> None:
    low, high = median_interval([0.9, 0.95, 1.0, 0.93, 0.97])
    assert 0.9 <= low <= 0.95 <= high <= 1.0
    assert median_interval([0.95] * 10) == (0.95, 0.95)


def test_the_same_values_give_the_same_interval() -> None:
    assert median_interval([1.0, 2.0, 3.0]) == median_interval([1.0, 2.0, 3.0])


def test_a_summary_is_in_milliseconds() -> None:
    assert summary([0.01, 0.03]) == {"n": 2, "p50_ms": 20.0, "p95_ms": 29.0, "max_ms": 30.0}
