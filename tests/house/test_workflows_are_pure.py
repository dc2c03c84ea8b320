"""`workflows/` has no clock, chance, environment, file, socket or sleep of its own.

Reason: a workflow is replayed from its history, after months perhaps, on another machine. Whatever it
takes from anywhere but its input and Temporal makes the replay differ, and then it is stuck. Temporal's
sandbox catches some of this at run time; this catches it in code that no test has run. Identities are
derived from the operation (`contracts/ids.py`), never drawn, so that a retry names the same thing:
`workflow.uuid4` and `workflow.random` are refused too.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import Breach, Module, imported_names, listed, modules_of, resolved, sample

_MODULES = frozenset(
    ("os", "time", "random", "secrets", "socket", "subprocess", "tempfile", "threading", "shutil", "pathlib", "io")
) | frozenset(("multiprocessing", "urllib", "http", "sqlite3", "platform", "sys"))
_CALLS = frozenset(
    (
        "open",
        "input",
        "print",
        "asyncio.sleep",
        "asyncio.to_thread",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
        "uuid.uuid1",
        "uuid.uuid4",
        "temporalio.workflow.uuid4",
        "temporalio.workflow.random",
    )
)


def impurities(module: Module) -> Iterator[Breach]:
    """Every import and call by which a module of `workflows/` would reach outside."""
    for statement, origin, _ in imported_names(module.tree):
        if origin.split(".")[0] in _MODULES:
            yield module.breach(statement, f"imports {origin}: workflows touch nothing")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (name := resolved(module, node.func)) in _CALLS:
            yield module.breach(node, f"calls {name}: take it from the input, or from temporalio.workflow")


_CHANGES = frozenset(
    ("append", "add", "update", "extend", "insert", "setdefault", "pop", "remove", "discard", "clear")
)


def shared_state(module: Module) -> Iterator[Breach]:
    """Every place where a function changes what belongs to its module: generations share it, see 0011."""
    targets = [t for node in module.tree.body if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in module.tree.body if isinstance(node, ast.AnnAssign)]
    own = {target.id for target in targets if isinstance(target, ast.Name)}

    def is_own(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in own

    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield module.breach(node, "changes its module: a module of workflows/ is shared between generations")
        changed = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGES
            and is_own(node.func.value)
        ) or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del) and is_own(node.value))
        if changed and isinstance(node, ast.expr):
            yield module.breach(node, "changes its module: a module of workflows/ is shared between generations")


def test_no_module_of_workflows_holds_state_that_changes() -> None:
    assert listed(breach for module in modules_of("workflows") for breach in shared_state(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "SEEN = []\ndef note(x):\n    SEEN.append(x)\n",
        "SEEN: dict[str, int] = {}\ndef note(x):\n    SEEN[x] = 1\n",
        "COUNT = 0\ndef note():\n    global COUNT\n    COUNT += 1\n",
    ],
)
def test_changing_state_is_caught(text: str) -> None:
    assert list(shared_state(sample(text)))


def test_workflows_touch_nothing() -> None:
    assert listed(breach for module in modules_of("workflows") for breach in impurities(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\n",
        "from random import random\n",
        "from os import environ\n",
        "from datetime import datetime\nnow = datetime.now()\n",
        "import datetime\nnow = datetime.datetime.now(datetime.UTC)\n",
        "from uuid import uuid4 as new\nid = new()\n",
        "from temporalio import workflow\nid = workflow.uuid4()\n",
        "text = open('manifest.yaml').read()\n",
        "import asyncio\nasync def f(): await asyncio.sleep(1)\n",
    ],
)
def test_each_way_out_is_caught(text: str) -> None:
    assert list(impurities(sample(text, "workflows/domain/sample.py")))


def test_temporals_own_clock_and_derived_ids_are_right() -> None:
    text = (
        "import uuid\nfrom temporalio import workflow\n"
        "async def f():\n    await workflow.sleep(1)\n"
        "    return workflow.now(), uuid.uuid5(uuid.NAMESPACE_URL, 'a')\n"
    )
    assert not list(impurities(sample(text, "workflows/definitions/sample.py")))
