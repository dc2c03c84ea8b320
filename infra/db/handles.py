"""What a caller may do with a connection: read, or read and write. Two types, so that mypy sees the difference."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import DictRow

from infra.db.errors import translate
from infra.db.queries import Query

Connection = psycopg.AsyncConnection[DictRow]
Row = DictRow
"""Column name to value."""


class Reader:
    """Reads. Each statement sees what was committed before it began; see `snapshot` for more."""

    def __init__(self, connection: Connection) -> None:
        """Wrap a connection of the pool; the pool keeps owning it."""
        self._connection = connection

    async def _run(self, query: Query, parameters: dict[str, Any]) -> psycopg.AsyncCursor[Row]:
        try:
            return await self._connection.execute(query.text, parameters or None)
        except psycopg.Error as error:
            raise translate(error) from error

    async def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        """All rows."""
        cursor = await self._run(query, parameters)
        return await cursor.fetchall()

    async def one(self, query: Query, /, **parameters: Any) -> Row | None:
        """The first row, or None."""
        cursor = await self._run(query, parameters)
        return await cursor.fetchone()

    async def value(self, query: Query, /, **parameters: Any) -> Any:
        """The first column of the first row; None when there is no row."""
        row = await self.one(query, **parameters)
        return None if row is None else next(iter(row.values()))

    @asynccontextmanager
    async def snapshot(self, statement_timeout: timedelta = timedelta(minutes=5)) -> AsyncIterator["Reader"]:
        """A reader whose statements all see one moment, also while others write; for audits and backups.

        Raises:
            TypeError: called on a transaction, which has its own moments.
        """
        if isinstance(self, Tx):
            raise TypeError("a transaction can't become a snapshot")
        milliseconds = int(statement_timeout / timedelta(milliseconds=1))
        try:
            await self._connection.execute("begin isolation level repeatable read read only")
            await self._connection.execute(
                "select set_config('statement_timeout', %s, true)", (str(milliseconds),)
            )
            try:
                yield Reader(self._connection)
            finally:
                await self._connection.rollback()  # nothing was written
        except psycopg.Error as error:
            raise translate(error) from error


class Tx(Reader):
    """Reads and writes. Whoever opened it commits, once, at its end; nobody else does."""

    async def run(self, query: Query, /, **parameters: Any) -> int:
        """Execute a statement whose rows don't matter; how many it touched."""
        cursor = await self._run(query, parameters)
        return cursor.rowcount


class SingleStatement(Tx):
    """A transaction of exactly one statement, which commits by itself: one round trip instead of three."""

    def __init__(self, connection: Connection) -> None:
        """Wrap an autocommit connection."""
        super().__init__(connection)
        self._used = False

    async def _run(self, query: Query, parameters: dict[str, Any]) -> psycopg.AsyncCursor[Row]:
        if self._used:
            raise RuntimeError(f"{query.name} would be a second statement, and a transaction of its own")
        self._used = True
        return await super()._run(query, parameters)
