"""One spelling of a JSON value, so that whoever signs and whoever checks hash the same bytes.

It is RFC 8785 (JCS) for values without fractions: UTF-8; no white space; members sorted by the UTF-16 code units
of their names; strings with the shortest escapes; numbers are integers from -(2^53 - 1) to 2^53 - 1, as everybody
reads them exactly. What has no such spelling is refused: floats, larger integers, half surrogates.
"""

import json
from typing import Any

INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 32
"""Deeper than anything that is signed here."""


class UncanonicalError(ValueError):
    """The value, or its text, has no canonical form."""


def canonical(value: Any) -> bytes:
    """The value's canonical bytes.

    Raises:
        UncanonicalError: it has none.
    """
    try:
        return _text(value, 0).encode()
    except UnicodeEncodeError as error:
        raise UncanonicalError("a string holds half of a surrogate pair") from error


def parsed(text: bytes) -> Any:
    """A value from JSON text, which need not be in canonical form but must mean one value to every reader.

    Raises:
        UncanonicalError: not JSON, a name twice in one object, or a number that isn't such an integer.
    """
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_once, parse_float=_no_number, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        if isinstance(error, UncanonicalError):
            raise
        raise UncanonicalError("it is not JSON in UTF-8") from error


def _text(value: Any, depth: int) -> str:
    if depth > DEPTH_MAX:
        raise UncanonicalError(f"it is deeper than {DEPTH_MAX}")
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            if abs(value) > INTEGER_MAX:
                raise UncanonicalError("an integer is beyond 2^53 - 1")
            return str(value)
        case list() | tuple():
            return f"[{','.join(_text(item, depth + 1) for item in value)}]"
        case dict():
            if not all(isinstance(name, str) for name in value):
                raise UncanonicalError("a member's name is no string")
            names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
            members = (f"{_text(name, depth)}:{_text(value[name], depth + 1)}" for name in names)
            return f"{{{','.join(members)}}}"
        case _:
            raise UncanonicalError(f"a {type(value).__name__} has no place in it")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UncanonicalError("a name stands twice in one object")
    return found


def _no_number(text: str) -> Any:
    raise UncanonicalError(f"{text[:40]} is no integer")
