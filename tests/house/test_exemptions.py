"""Every exemption carries its reason on its own line.

Reason: a broad `except` hides the fault that nobody thought of, and a bare `noqa` or `type: ignore` outlives
whatever it was for. With the reason on the line a reader can tell whether it still holds. Broad handlers
belong at the edge of a process or a loop that must not end, and say so.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import Breach, Module, listed, modules_of, product, sample

_BROAD = frozenset(("Exception", "BaseException"))
_NOQA = re.compile(r"noqa(?P<codes>:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?(?P<reason>.*)", re.IGNORECASE)
_IGNORE = re.compile(r"type:\s*ignore(?P<codes>\[[a-z-]+(?:,\s*[a-z-]+)*\])?(?P<reason>.*)")
_WORDS_MIN = 2


def _says_something(text: str) -> bool:
    return len(re.findall(r"[A-Za-z']{2,}", text)) >= _WORDS_MIN


def unexplained(module: Module) -> Iterator[Breach]:
    """Every exemption of a checker without codes or without a reason."""
    for line, comment in module.comments.items():
        for name, pattern in (("noqa", _NOQA), ("type: ignore", _IGNORE)):
            match = pattern.search(comment)
            if not match or not comment.startswith(("noqa", "type:")):
                continue
            around = comment.replace(match[0], "") + match["reason"]
            if not match["codes"]:
                yield Breach(module.where, line, f"{name} names no rule")
            elif not _says_something(around):
                yield Breach(module.where, line, f"{name} gives no reason on its line")


def broad_handlers(module: Module) -> Iterator[Breach]:
    """Every handler that catches everything, without a reason on its line."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = [name for name in caught if name is None or (isinstance(name, ast.Name) and name.id in _BROAD)]
        comment = _NOQA.sub(lambda match: match["reason"], module.comments.get(node.lineno, ""))
        if broad and not _says_something(comment):
            yield module.breach(node, "catches everything; name the errors, or say on the line why it must")


def test_every_exemption_has_its_reason() -> None:
    everywhere = (*product(), *modules_of("tests"))
    assert listed(breach for module in everywhere for breach in unexplained(module)) == []


def test_nothing_catches_everything_without_a_reason() -> None:
    everywhere = (*product(), *modules_of("tests"))
    assert listed(breach for module in everywhere for breach in broad_handlers(module)) == []


@pytest.mark.parametrize(
    "comment",
    ["noqa", "noqa: S101", "noqa: S101,S102 -", "type: ignore", "type: ignore[arg-type]", "type: ignore  # x"],
)
def test_a_bare_exemption_is_caught(comment: str) -> None:
    assert list(unexplained(sample(f"x = 1  # {comment}\n")))


@pytest.mark.parametrize(
    "comment",
    ["noqa: S101 - pytest's own", "type: ignore[arg-type]  # the stub is wrong", "an ordinary remark on noqa"],
)
def test_an_explained_exemption_is_right(comment: str) -> None:
    assert not list(unexplained(sample(f"x = 1  # {comment}\n")))


@pytest.mark.parametrize("handler", ["except:", "except Exception:", "except (OSError, BaseException):"])
def test_a_broad_handler_is_caught_unless_it_says_why(handler: str) -> None:
    assert list(broad_handlers(sample(f"try:\n    f()\n{handler}\n    pass\n")))
    assert list(broad_handlers(sample(f"try:\n    f()\n{handler}  # noqa: BLE001\n    pass\n")))
    assert not list(broad_handlers(sample(f"try:\n    f()\n{handler}  # the loop must go on\n    pass\n")))
