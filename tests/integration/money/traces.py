"""All that the database has of one account, without what differs from run to run: to compare two runs."""

import json
import re
from typing import Any

import psycopg
from psycopg import sql

_TABLES = """
select table_name from information_schema.tables
where table_schema = 'holdfast' and table_type = 'BASE TABLE' order by 1
"""
_TIME = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LOT = re.compile(r"^expiry:\d+:")
_COUNTED = frozenset(("version", "seq", "secret_sha256"))
"""Counted by the database, or made from the account's name."""
_NUMBERED = re.compile(r"(^|_)id$")


def reader_of_traces(conninfo: str) -> sql.Composed:
    """One statement that reads the rows of every table which name one of its parameter's texts."""
    with psycopg.connect(conninfo) as connection:
        tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    return sql.SQL(" union all ").join(
        sql.SQL(
            "select {}, to_jsonb(t) from holdfast.{} t"
            " where exists (select from unnest(%(texts)s::text[]) n where strpos(t::text, n) > 0)"
        ).format(sql.Literal(name), sql.Identifier(name))
        for name in tables
    )


def traces(conninfo: str, statement: sql.Composed, names: dict[str, str]) -> dict[str, list[str]]:
    """The rows that name one of `names`' values, by table, each with a value's name in its place."""
    found: dict[str, list[str]] = {}
    with psycopg.connect(conninfo) as connection:
        for table, row in connection.execute(statement, {"texts": list(names.values())}).fetchall():
            found.setdefault(table, []).append(json.dumps(_masked(row, names), sort_keys=True))
    return {table: sorted(rows) for table, rows in found.items()}


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> list[str]:
    """Rows that only one of two runs has."""
    return [
        f"{table}: {row}"
        for table in sorted({*one, *other})
        for row in sorted({*one.get(table, [])} ^ {*other.get(table, [])})
    ]


def _masked(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _masked(inner, names, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, names) for inner in value]
    if key in _COUNTED or (isinstance(value, int) and _NUMBERED.search(key)):
        return "<number>"
    if not isinstance(value, str):
        return value
    for name, text in names.items():
        value = value.replace(text, f"<{name}>")
    value = _LOT.sub("expiry:<number>:", value)
    return "<time>" if _TIME.match(value) else _UUID.sub("<uuid>", value)
