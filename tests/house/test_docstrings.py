"""What other modules may use says what it is.

Reason: a public name without a sentence has to be read to be used, and then its callers rely on what it
happens to do. Names with an underscore need none. A method that implements a documented one of its base
need not repeat it.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import Breach, Module, dotted, listed, product, sample

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _documented_methods(modules: tuple[Module, ...]) -> dict[str, frozenset[str]]:
    """Class name to the names of its documented methods."""
    return {
        node.name: frozenset(
            item.name for item in node.body if isinstance(item, _Function) and ast.get_docstring(item)
        )
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }


def mute_names(module: Module, documented: dict[str, frozenset[str]]) -> Iterator[Breach]:
    """The module, and every public class, function and method in it, without a docstring."""
    if module.tree.body and not ast.get_docstring(module.tree):
        yield Breach(module.where, 1, "the module doesn't say what it is")
    for node in module.tree.body:
        if not isinstance(node, _Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield module.breach(node, f"{node.name} has no docstring")
        if isinstance(node, ast.ClassDef):
            yield from _mute_methods(module, node, documented)


def _mute_methods(module: Module, owner: ast.ClassDef, documented: dict[str, frozenset[str]]) -> Iterator[Breach]:
    bases = [dotted(base.value if isinstance(base, ast.Subscript) else base) for base in owner.bases]
    known = frozenset[str]().union(*(documented.get(base.split(".")[-1], frozenset()) for base in bases))
    for item in owner.body:
        if not isinstance(item, _Function) or item.name.startswith("_") or item.name in known:
            continue
        decorators = {dotted(d.func if isinstance(d, ast.Call) else d).split(".")[-1] for d in item.decorator_list}
        if not ast.get_docstring(item) and not decorators & {"overload", "setter", "override"}:
            yield module.breach(item, f"{owner.name}.{item.name} has no docstring")


def test_every_public_name_has_a_docstring() -> None:
    documented = _documented_methods(product())
    assert listed(breach for module in product() for breach in mute_names(module, documented)) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        "'''M.'''\ndef f(): ...\n",
        "'''M.'''\nasync def f(): ...\n",
        "'''M.'''\nclass C: ...\n",
        "'''M.'''\nclass C:\n    '''C.'''\n    def f(self): ...\n",
    ],
)
def test_a_mute_name_is_caught(text: str) -> None:
    assert list(mute_names(sample(text), {}))


def test_private_names_and_implementations_need_none() -> None:
    assert not list(mute_names(sample("'''M.'''\ndef _f(): ...\nclass _C:\n    def f(self): ...\n"), {}))
    port = sample("'''M.'''\nclass Port:\n    '''P.'''\n    def ask(self):\n        '''Ask.'''\n")
    child = sample("'''M.'''\nclass Real(Port):\n    '''R.'''\n    def ask(self): ...\n")
    assert not list(mute_names(child, _documented_methods((port,))))
