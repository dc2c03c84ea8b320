"""Migrations: numbered SQL files, forward only, one transaction each, under one lock.

`NNNN_pre_….sql` runs before the code that needs it is started and must leave the code now running able to work;
`NNNN_post_….sql` runs after the last old process is gone. An applied file never changes: its checksum is kept.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString

import psycopg

from infra.db.errors import SchemaMismatch, translate

SERVER_VERSION_MIN = 150_000
"""Postgres 15, as libpq numbers it."""

_LOCK = 0x401DFA57
"""Key of the advisory lock that lets one process migrate at a time."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file.

    Attributes:
        name: File name without `.sql`; sorts in the order of application.
        text: The SQL.
    """

    name: str
    text: LiteralString

    @property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def shipped() -> list[Migration]:
    """All migrations of this code, in order."""
    folder = files("infra.db").joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return [
        Migration(entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in sorted(found, key=lambda entry: entry.name)
    ]


async def migrate(conninfo: str) -> list[str]:
    """Apply what is missing; the names of what was applied. Safe to call from many processes at once.

    Raises:
        DatabaseAway: it can't be reached.
        SchemaMismatch: an applied file was changed since, or the server is older than Postgres 15.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            conninfo, autocommit=True, application_name="holdfast migrate", connect_timeout=5
        )
        async with connection:
            if connection.info.server_version < SERVER_VERSION_MIN:
                raise SchemaMismatch(f"Postgres {connection.info.server_version // 10_000} is older than 15")
            await connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
            return await _apply_missing(connection)
    except psycopg.Error as error:
        raise translate(error) from error


async def _apply_missing(connection: psycopg.AsyncConnection) -> list[str]:
    await connection.execute("create schema if not exists holdfast")
    await connection.execute("set search_path = holdfast")
    # A migration that can't get its locks gives way to the traffic and is tried again by whoever called.
    await connection.execute("set lock_timeout = '4s'")
    await connection.execute(
        "create table if not exists migration ("
        " name text primary key, checksum text not null, applied_at timestamptz not null default now())"
    )
    cursor = await connection.execute("select name, checksum from migration")
    known: dict[str, str] = dict(await cursor.fetchall())
    applied = []
    for migration in shipped():
        if migration.name in known:
            if known[migration.name] != migration.checksum:
                raise SchemaMismatch(f"migration {migration.name} was applied with another text")
            continue
        async with connection.transaction():
            await connection.execute(migration.text)
            await connection.execute(
                "insert into migration (name, checksum) values (%s, %s)", (migration.name, migration.checksum)
            )
        applied.append(migration.name)
    return applied


async def pending(conninfo: str) -> list[str]:
    """Names of the migrations that `migrate` would apply; for readiness checks and doctors."""
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True, connect_timeout=5)
        async with connection:
            cursor = await connection.execute("select to_regclass('holdfast.migration') is not null")
            row = await cursor.fetchone()
            if row is None or not row[0]:
                return [migration.name for migration in shipped()]
            cursor = await connection.execute("select name from holdfast.migration")
            known = {name for (name,) in await cursor.fetchall()}
    except psycopg.Error as error:
        raise translate(error) from error
    return [migration.name for migration in shipped() if migration.name not in known]
