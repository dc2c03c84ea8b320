"""Tests wait for conditions, never for time.

Reason: a sleep that is long enough on this machine is too short on a busier one, and a test that fails one
time in fifty teaches people to run it again. `tests/support/eventually.py` polls for a condition until a
deadline. A sleep that isn't a wait, as in a fake engine that is meant to be slow, says so on its line.
"""

import ast
from collections.abc import Iterator

from tests.house.sources import Breach, Module, listed, modules_of, resolved, sample

OWNER = "tests/support/eventually.py"
_SLEEPS = frozenset(("time.sleep", "asyncio.sleep"))


def sleeps(module: Module) -> Iterator[Breach]:
    """Every sleep without a comment on its line that says what it stands for."""
    if module.where == OWNER:
        return
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and resolved(module, node.func) in _SLEEPS
            and not _yields(node)
            and not module.comments.get(node.lineno)
        ):
            yield module.breach(node, f"sleeps; wait with {OWNER}, or say on the line why it isn't a wait")


def _yields(call: ast.Call) -> bool:
    """`sleep(0)` waits for nothing: it gives the event loop one turn."""
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def test_no_test_waits_by_sleeping() -> None:
    assert listed(breach for module in modules_of("tests") for breach in sleeps(module)) == []


def test_a_bare_sleep_is_caught_and_an_explained_one_is_not() -> None:
    assert list(sleeps(sample("import time\ntime.sleep(1)\n")))
    assert list(sleeps(sample("from asyncio import sleep\nasync def f(): await sleep(1)\n")))
    assert not list(sleeps(sample("import asyncio\nasync def f(): await asyncio.sleep(0)\n")))
    assert not list(sleeps(sample("import time\ntime.sleep(1)  # the engine itself is this slow\n")))
