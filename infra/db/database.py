"""A pool of connections to Postgres, which may come and go."""

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from infra.db.errors import translate
from infra.db.handles import Connection, Reader, Row, SingleStatement, Tx
from infra.db.session import Session
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres
from infra.settings import Settings
from workflows.contracts import timeouts

CHECKOUT = timedelta(seconds=1)
"""How long a caller waits for a free connection before the database counts as away."""
CONNECT = timedelta(seconds=2)
CANCEL = timedelta(milliseconds=500)
"""For a server to take the request that ends a statement whose caller gave up."""
STATEMENT = timedelta(seconds=4)
"""Just under `timeouts.MONEY_STEP`, so that a try ends before its successor begins."""
RECONNECT = timedelta(seconds=3)
"""The pool gives one reconnection up after this and lets the next caller start another: with the default of
5 min its doubling pauses would keep a database that is back away for a minute more."""


def conninfo_of(settings: Settings) -> str:
    """The database that these settings name: `database_url`, or the embedded one under `home`."""
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return EmbeddedPostgres(Layout(settings.home)).conninfo()


def session_options(application: str) -> dict[str, str | int]:
    """Connection parameters that every connection of ours has, so that no statement is needed to set them."""
    milliseconds = timedelta(milliseconds=1)
    return {
        "application_name": f"holdfast {application}",
        "connect_timeout": int(CONNECT.total_seconds()),
        # A server's machine that vanished says nothing at all: these end the wait after about 25 s.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": " ".join((
            "-c search_path=holdfast",
            f"-c lock_timeout={timeouts.LOCK // milliseconds}",
            f"-c statement_timeout={STATEMENT // milliseconds}",
            # A process that was stopped in the middle must not keep an account locked.
            f"-c idle_in_transaction_session_timeout={STATEMENT // milliseconds}",
        )),
    }  # fmt: skip


class _Connection(psycopg.AsyncConnection[Row]):
    """A connection whose statement can be given up in time."""

    async def _try_cancel(self, *, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - as the driver calls it
        """Ask the server to end the statement. A server that takes no request keeps nobody: the driver would go
        on for 10 s after its caller's own deadline; with an error from here it closes the connection instead.
        """
        await self.cancel_safe(timeout=min(timeout, CANCEL.total_seconds()))


def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection still has its server, at the price of one poll instead of a round trip.

    An idle connection has nothing to read unless the server said goodbye or vanished; in the rare case of
    another notice, one healthy connection is replaced.
    """
    poller = select.poll()  # select() can't take descriptors over 1,023
    poller.register(connection.fileno(), select.POLLIN)
    return not poller.poll(0)


class Database:
    """The platform's Postgres, for one process."""

    def __init__(self, conninfo: str, *, application: str, pool_max: int = 8) -> None:
        """Prepare a pool; nothing is connected before `open`."""
        self._conninfo = make_conninfo(conninfo, **session_options(application))
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            self._conninfo,
            connection_class=_Connection,
            kwargs={"autocommit": True, "row_factory": dict_row},
            min_size=1,
            max_size=pool_max,
            open=False,
            timeout=CHECKOUT.total_seconds(),
            reconnect_timeout=RECONNECT.total_seconds(),
            name=application,
        )

    @classmethod
    def from_settings(cls, settings: Settings, *, application: str, pool_max: int | None = None) -> Self:
        """The database that the settings name: `database_url`, or the embedded one under `home`."""
        return cls(conninfo_of(settings), application=application, pool_max=pool_max or settings.database_pool_max)

    async def open(self) -> None:
        """Start connecting in the background; does not fail when Postgres is away."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        """`open`."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """`close`."""
        await self.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        try:
            connection = await self._checkout()
            try:
                yield connection
            finally:
                await self._pool.putconn(connection)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _checkout(self) -> Connection:
        """A connection that was alive just now. The pool's own check pauses a second after its second find, so
        that a restart of the server would cost the callers that second.
        """
        deadline = monotonic() + CHECKOUT.total_seconds()
        while True:
            connection = await self._pool.getconn(timeout=max(0.0, deadline - monotonic()))
            if _is_alive(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)  # which replaces it

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Reader]:
        """Read; each statement by itself.

        Raises:
            DatabaseAway: no connection within a second, or it broke.
        """
        async with self._connection() as connection:
            yield Reader(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Read and write; committed when the block ends well, rolled back otherwise.

        Raises:
            DatabaseAway: the connection failed; at the very end that leaves open whether it was committed.
            DatabaseBusy: a lock or a statement took too long.
        """
        async with self._connection() as connection, connection.transaction():
            yield Tx(connection)

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[Tx]:
        """A transaction for exactly one statement: one round trip. For the hot steps, each one function call."""
        async with self._connection() as connection:
            yield SingleStatement(connection)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection of one's own, outside the pool: to listen, to lead.

        Raises:
            DatabaseAway: it can't be made, or broke.
        """
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._conninfo, autocommit=True, row_factory=dict_row
            )
            async with connection:
                yield Session(connection)
        except psycopg.Error as error:
            raise translate(error) from error
