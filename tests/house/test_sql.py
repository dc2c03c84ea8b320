"""SQL stands in `.sql` files, each query named and said in a sentence.

Reason: SQL in strings is read by nobody, formatted by nobody, and grows conditions by concatenation. In a
file beside its module it is text that people review, and that a person at `psql` can paste. A query that
only calls a function of the database may leave its sentence to the function.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOMS, ROOT, Breach, Module, listed, product, sample

OWNERS = ("infra/db/", "infra/local/postgres.py")
"""Before any file is applied come a connection's own settings, the migrator's bookkeeping, the database itself."""

_STATEMENT = re.compile(
    r"""\s*\(?\s*(
        select\s.+\sfrom\s | select\s+[\w.]+\( | insert\s+into\s | update\s+[\w.]+\s+set\s | delete\s+from\s |
        with\s+\w+\s+as\s*\( | (create|drop|alter)\s+(table|schema|index|unique|function|trigger|database|role)\b |
        truncate\s | lock\s+table\s | set\s+(local|session|search_path|lock_timeout|statement_timeout)\b |
        (listen|notify)\s+\w+$ | pragma\s+\w+ | begin\s+(immediate|exclusive|transaction) | vacuum\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"^-- name: (\S+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"select\s+holdfast\.(\w+_v\d+)\s*\(", re.IGNORECASE)


def statements(module: Module) -> Iterator[Breach]:
    """Every string, docstrings apart, that reads as SQL."""
    if module.where.startswith(OWNERS):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in module.docstrings:
            text = _text(node)
            if _STATEMENT.match(text):
                yield module.breach(node, f"holds SQL: {text[:40]!r}; name it in a .sql file beside the module")


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """The string, with `x` for each value that is formatted into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_text(part) if isinstance(part, ast.Constant) else "x" for part in node.values)


def mute_queries(where: str, text: str, functions: frozenset[str]) -> Iterator[Breach]:
    """Every named query that neither says what it does nor calls one of `functions`, which do."""
    for match in _NAMED.finditer(text):
        name, body = match.groups()
        call = _CALL.match(body.strip())
        if not body.startswith("-- ") and not (call and call[1] in functions):
            line = text.count("\n", 0, match.start()) + 1
            yield Breach(where, line, f"query {name!r} has no sentence")


def explained_functions(migrations: str) -> frozenset[str]:
    """Functions of the database whose definition follows a comment directly."""
    definition = r"^--[^\n]*\ncreate (?:or replace )?function (?:holdfast\.)?(\w+)\s*\("
    return frozenset(re.findall(definition, migrations, re.MULTILINE | re.IGNORECASE))


def _sql_files(*, migrations: bool) -> list[Path]:
    return [
        path
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.sql"))
        if (path.parent.name == "migrations") is migrations
    ]


def test_python_holds_no_sql() -> None:
    assert listed(breach for module in product() for breach in statements(module)) == []


def test_every_query_says_what_it_does() -> None:
    functions = explained_functions("\n".join(path.read_text() for path in _sql_files(migrations=True)))
    files = _sql_files(migrations=False)
    assert files
    assert (
        listed(
            breach
            for path in files
            for breach in mute_queries(path.relative_to(ROOT).as_posix(), path.read_text(), functions)
        )
        == []
    )


def test_sql_in_strings_is_caught_and_sentences_are_not() -> None:
    for text in (
        "select 1 from generation",
        "\n  INSERT INTO ticket values (1)",
        "update card set cordoned = true",
        "with free as (select 1) select",
        "create table run (id text)",
        "pragma journal_mode = wal",
        "select holdfast.settle_v1(%s)",
    ):
        assert list(statements(sample(f"query = {text!r}\n"))), text
    assert list(statements(sample("query = f'select {column} from generation'\n")))
    assert not list(statements(sample("'''Select rows from generation.'''\nsay = 'update your settings'\n")))


def test_a_query_without_a_sentence_is_caught() -> None:
    text = (
        "-- name: a\n-- Why.\nselect 1\n\n-- name: b\nselect 2\n\n"
        "-- name: c\nselect holdfast.c_v1()\n\n-- name: d\nselect holdfast.d_v1()\n"
    )
    found = [breach.what for breach in mute_queries("x.sql", text, frozenset(("c_v1",)))]
    assert found == ["query 'b' has no sentence", "query 'd' has no sentence"]


def test_a_functions_own_comment_counts() -> None:
    text = "-- Pays.\ncreate function holdfast.pay_v1(x text) returns int\n\n\ncreate function mute_v1()\n"
    assert explained_functions(text) == {"pay_v1"}
