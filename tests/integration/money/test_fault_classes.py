"""Each class of money fault that others had has its tests, and those exist."""

import ast
from functools import cache
from pathlib import Path

from tests.integration.money.classes import CLASSES, NOT_YET

TESTS = Path(__file__).resolve().parents[2]
ASKED = {*(f"O{number:02}" for number in range(1, 17)), "O26", "O47", "O53", "O56"}
"""Rows that are about nothing but credits."""


@cache
def _defined(path: str) -> frozenset[str]:
    """The tests that a file defines."""
    file = TESTS / path
    if not file.exists():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def absent(named: dict[str, tuple[str, ...]]) -> list[str]:
    """The tests that are named and aren't there."""
    return [
        f"{row}: {test}"
        for row, tests in named.items()
        for test in tests
        if test.partition("::")[2] not in _defined(test.partition("::")[0])
    ]


def test_every_test_that_a_class_names_exists() -> None:
    assert absent(CLASSES) == []


def test_every_class_has_a_test_or_a_reason() -> None:
    assert sorted(ASKED - set(CLASSES)) == []
    assert all(CLASSES.values())
    assert all(NOT_YET.values())
    assert not set(CLASSES) & set(NOT_YET)


def test_a_test_that_is_gone_is_seen() -> None:
    assert absent({"O99": ("contract/test_tasks.py::test_never_written", "gone.py::test_x")}) == [
        "O99: contract/test_tasks.py::test_never_written",
        "O99: gone.py::test_x",
    ]
