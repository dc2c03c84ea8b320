"""The checkout as the house rules see it: parsed modules, their comments, and what broke a rule where."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
ROOMS = ("workflows", "activities", "api", "infra", "workers")
"""What is shipped; `tests` and `docs` are not."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a rule is broken."""

    where: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Module:
    """One Python file.

    Attributes:
        where: Its path in the checkout, with forward slashes.
        text: Its source.
    """

    where: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, filename=self.where)

    @cached_property
    def comments(self) -> dict[int, str]:
        """The comment of each line that has one, without its `#`. Strings that look like comments aren't here."""
        found: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.string.lstrip("#").strip()
        return found

    @cached_property
    def docstrings(self) -> frozenset[int]:
        """The identities of all string nodes that stand alone as statements."""
        return frozenset(
            id(node.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )

    @cached_property
    def origins(self) -> dict[str, str]:
        """What each imported name stands for, by the name it has here."""
        return {here: origin for _, origin, here in imported_names(self.tree)}

    def breach(self, node: ast.stmt | ast.expr | ast.excepthandler, what: str) -> Breach:
        """A breach at a node of this module."""
        return Breach(self.where, node.lineno, what)


@lru_cache
def modules_of(*folders: str) -> tuple[Module, ...]:
    """Every Python file under these folders of the checkout, in order of path."""
    return tuple(
        Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    )


def product() -> tuple[Module, ...]:
    """Every Python file of the product's rooms."""
    return modules_of(*ROOMS)


def sample(text: str, where: str = "infra/sample.py") -> Module:
    """A module that exists only in a rule's self-test."""
    return Module(where, text)


def listed(breaches: Iterable[Breach]) -> list[str]:
    """Breaches as pytest shows them best: one line each, in order."""
    return sorted(str(breach) for breach in breaches)


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a chain of names and attributes, or an empty text for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def imported_names(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Each import as (statement, dotted name of what is imported, name it has here)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}", alias.asname or alias.name


def resolved(module: Module, node: ast.expr) -> str:
    """The dotted name behind an expression after this module's imports and aliases are undone."""
    head, _, rest = dotted(node).partition(".")
    origin = module.origins.get(head, head)
    return f"{origin}.{rest}" if rest else origin
