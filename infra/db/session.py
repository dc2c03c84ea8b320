"""A connection kept for its own sake: what it listens to and what it leads ends with it."""

from datetime import timedelta

import psycopg
from psycopg import sql

from infra.db.errors import translate
from infra.db.handles import Connection


class Session:
    """One dedicated connection. When it breaks, leadership is lost with it, so both are watched in one place."""

    def __init__(self, connection: Connection) -> None:
        """Wrap an autocommit connection that nobody else uses."""
        self._connection = connection

    async def try_lead(self, role: str) -> bool:
        """Become the only leader of `role` among all processes; False when another one is.

        Leadership lasts until this session ends. Asking again while leading is harmless.
        """
        try:
            cursor = await self._connection.execute(
                "select pg_try_advisory_lock(hashtextextended('lead:' || %s, 0)) as won", (role,)
            )
            row = await cursor.fetchone()
        except psycopg.Error as error:
            raise translate(error) from error
        return bool(row and row["won"])

    async def listen(self, *channels: str) -> None:
        """Subscribe to NOTIFY channels."""
        try:
            for channel in channels:
                await self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        except psycopg.Error as error:
            raise translate(error) from error

    async def wait(self, patience: timedelta) -> frozenset[str]:
        """What was notified, as the notifications' words; empty when `patience` ran out without any.

        What arrived since the last wait counts too. Equal words are one wake-up.

        Raises:
            DatabaseAway: the connection broke; leadership and subscriptions are gone.
        """
        heard: set[str] = set()
        try:
            async for notice in self._connection.notifies(timeout=patience.total_seconds(), stop_after=1):
                heard.add(notice.payload)
        except psycopg.Error as error:
            raise translate(error) from error
        return frozenset(heard)
