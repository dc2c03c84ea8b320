"""One spelling for one value: whoever signs and whoever checks hash the same bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.signatures.canonical import INTEGER_MAX, UncanonicalError, canonical, parsed

_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
_LEAVES = st.none() | st.booleans() | st.integers(-INTEGER_MAX, INTEGER_MAX) | _TEXT
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=20)


def _shuffled(value: Any) -> Any:
    """The same value with its members in another order."""
    match value:
        case dict():
            return {name: _shuffled(value[name]) for name in reversed(value)}
        case list():
            return [_shuffled(item) for item in value]
    return value


@given(_VALUES)
def test_the_spelling_means_the_value_and_is_its_only_one(value: Any) -> None:
    text = canonical(value)
    assert parsed(text) == value
    assert canonical(parsed(text)) == text
    assert canonical(_shuffled(value)) == text
    for spelled in (json.dumps(value, indent=2), json.dumps(value, ensure_ascii=False)):
        assert canonical(parsed(spelled.encode())) == text


@given(_VALUES, _VALUES)
def test_two_values_have_two_spellings(one: Any, other: Any) -> None:
    def typed(value: Any) -> Any:  # True == 1 in Python, and not in JSON
        return json.dumps(value, sort_keys=True)

    assert (canonical(one) == canonical(other)) == (typed(one) == typed(other))


def test_members_go_by_utf_16_as_the_standards_example_has_it() -> None:
    # RFC 8785, section 3.2.3: the emoji's first unit is D83D, below FB33.
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]
    found = list(json.loads(canonical(dict.fromkeys(names, 0))))
    assert found == ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_strings_have_the_standards_escapes() -> None:
    text = '\u20ac$\x0f\nA\'B"\\\\"/'
    assert canonical([text]) == b'["\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"]'


@pytest.mark.parametrize("value", [1.5, float("nan"), 2**53, -(2**53), "\ud800", {1: 2}, {"x"}, b"x"])
def test_what_has_no_one_spelling_is_refused(value: Any) -> None:
    with pytest.raises(UncanonicalError):
        canonical({"x": [value]})


@pytest.mark.parametrize(
    "text", [b'{"a":1,"a":1}', b"1.0", b"1e3", b"NaN", b"-Infinity", b"{", b"\xff", b"[" * 9_999]
)
def test_text_that_readers_would_read_differently_is_refused(text: bytes) -> None:
    with pytest.raises(UncanonicalError):
        canonical(parsed(text))


def test_depth_has_a_bound() -> None:
    deep: Any = 0
    for _ in range(40):
        deep = [deep]
    with pytest.raises(UncanonicalError):
        canonical(deep)
