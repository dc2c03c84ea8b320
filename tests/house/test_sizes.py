"""Bounds on length: 400 lines a file, 70 lines a function.

Reason: what fits on a screen or two is read before it is changed. Files of thousands of lines, where every
handler and every fault lives, start as files of five hundred that nobody wanted to split that day.
"""

import ast
from collections.abc import Iterator

from tests.house.sources import Breach, Module, listed, modules_of, product, sample

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


def long_files(module: Module) -> Iterator[Breach]:
    """The module itself, when it is too long."""
    lines = module.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield Breach(module.where, lines, f"has {lines} lines, {FILE_LINES_MAX} at most: split it by its nouns")


def long_functions(module: Module) -> Iterator[Breach]:
    """Every function that is too long, its docstring counted."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield module.breach(node, f"{node.name} has {lines} lines, {FUNCTION_LINES_MAX} at most")


def test_no_file_is_too_long() -> None:
    everywhere = (*product(), *modules_of("tests"))
    assert listed(breach for module in everywhere for breach in long_files(module)) == []


def test_no_function_is_too_long() -> None:
    assert listed(breach for module in product() for breach in long_functions(module)) == []


def test_one_line_too_many_is_caught() -> None:
    assert not list(long_files(sample("x = 1\n" * FILE_LINES_MAX)))
    assert list(long_files(sample("x = 1\n" * (FILE_LINES_MAX + 1))))
    assert not list(long_functions(sample("def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1))))
    assert list(long_functions(sample("async def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX)))
