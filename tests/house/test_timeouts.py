"""Every time-out stands in one table, with its reason.

Reason: a time-out without its reason is changed by whoever is waiting for it. Where two of them depend on
each other, only a common table shows it.
"""

import ast
from collections.abc import Iterator

from tests.house.sources import Breach, Module, listed, modules_of, sample


def unexplained_constants(module: Module) -> Iterator[Breach]:
    """Every constant that isn't followed by a docstring of its own."""
    body = module.tree.body
    for node, after in zip(body, [*body[1:], None], strict=True):
        explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(node, ast.Assign | ast.AnnAssign) and not explained:
            yield module.breach(node, f"{ast.unparse(node)} says no reason")


def test_every_time_out_says_its_reason() -> None:
    (table,) = (module for module in modules_of("workflows") if module.where == "workflows/contracts/timeouts.py")
    assert listed(unexplained_constants(table)) == []


def test_a_constant_without_a_reason_is_caught() -> None:
    assert [b.line for b in unexplained_constants(sample("'''M.'''\nA = 1\nB = 2\n'''Why.'''\nC = 3\n"))] == [2, 5]
