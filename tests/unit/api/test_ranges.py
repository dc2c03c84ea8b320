"""Ranges, against a model that slices."""

from hypothesis import given
from hypothesis import strategies as st

from api.core.ranges import UnsatisfiableError, requested_span

ETAG = '"e"'


@given(st.text(max_size=30), st.integers(0, 50))
def test_no_text_breaks_the_parser(header: str, total: int) -> None:
    try:
        span = requested_span(header, None, ETAG, total)
    except UnsatisfiableError:
        return
    assert span is None or 0 <= span.start < span.end <= total


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 50))
def test_a_range_is_the_slice_that_it_names(first: int, last: int, total: int) -> None:
    content = bytes(range(total))
    try:
        span = requested_span(f"bytes={first}-{last}", None, ETAG, total)
    except UnsatisfiableError:
        assert first >= total
        return
    if last < first:
        assert span is None
    else:
        assert span is not None
        assert content[span.start : span.end] == content[first : last + 1]


@given(st.integers(1, 60), st.integers(1, 50))
def test_a_suffix_is_the_end(count: int, total: int) -> None:
    content = bytes(range(total))
    span = requested_span(f"bytes=-{count}", None, ETAG, total)
    assert span is not None
    assert content[span.start : span.end] == content[-count:]


def test_a_number_without_end_is_no_range() -> None:
    assert requested_span("bytes=" + "9" * 100_000 + "-", None, ETAG, 10) is None
