"""What outsiders wrote is always recordable, whichever way it came: a step that can't record is tried for ever."""

import pytest

from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import CancelRequest
from workflows.domain.lifecycle import read_cancel


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_no_word_holds_what_a_database_refuses(odd: str) -> None:
    words = [
        CancelRequest(reason=f"a{odd}b", actor=odd).reason,
        read_cancel({"reason": f"a{odd}b"}).reason,
        read_cancel(f"a{odd}b").reason,
        Failure(code=Code.CANCELED, message=f"a{odd}b").message,
    ]

    assert words == ["a\N{REPLACEMENT CHARACTER}b"] * 4


def test_every_other_character_stays() -> None:
    assert CancelRequest(reason="né \N{PILE OF POO}\n\t").reason == "né \N{PILE OF POO}\n\t"
