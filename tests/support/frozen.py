"""A way to Postgres that can freeze: connections stay, and nothing comes through any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo


@asynccontextmanager
async def freezable(conninfo: str, folder: Path) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Another conninfo of the same database, and an event: while it is clear, the way is frozen.

    Args:
        conninfo: Of a database behind a unix socket.
        folder: Where the other socket is made; it exists.
    """
    flows = asyncio.Event()
    flows.set()
    address = conninfo_to_dict(conninfo)
    real = f"{address['host']}/.s.PGSQL.{address.get('port') or 5432}"
    ways: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                await flows.wait()
                writer.write(piece)

    async def way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await flows.wait()
            to_reader, to_writer = await asyncio.open_unix_connection(real)
            with contextlib.closing(to_writer):
                both = [asyncio.create_task(pump(reader, to_writer)), asyncio.create_task(pump(to_reader, writer))]
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in both:
                        one.cancel()
                    await asyncio.gather(*both, return_exceptions=True)

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ways.add(asyncio.create_task(way(reader, writer)))

    server = await asyncio.start_unix_server(begin, folder / ".s.PGSQL.5432")
    try:
        yield make_conninfo(conninfo, host=str(folder), port=5432), flows
    finally:
        flows.set()
        server.close()
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await server.wait_closed()
