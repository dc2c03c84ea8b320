"""The timed calls' connections: kept, made anew when the server closed them, never waited for without end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.support.eventually import eventually
from workers.bench.wire import Wire

ANSWER = b"HTTP/1.1 202 Accepted\r\nX: y\r\nContent-Length: 4\r\n\r\nbody"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def request(url: str) -> httpx.Request:
    return httpx.Request("POST", f"{url}/path?q=1", headers={"x-test": "1"}, content=b"abc")


async def _said_goodbye(wire: Wire) -> bool:
    return wire._idle[0][0].at_eof()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(3)


async def test_a_connection_is_kept_and_a_closed_one_made_anew() -> None:
    seen: list[bytes] = []
    connections = 0

    async def two_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):
            seen.append(await read_request(reader))
            writer.write(ANSWER)
            await writer.drain()
        writer.close()

    async with served(two_each) as url:
        wire = Wire(url, answer_s=10)
        for calls in range(1, 5):
            answered = await wire.send(request(url))
            assert (answered.response.status_code, answered.response.content) == (202, b"body")
            assert answered.seconds > 0
            if calls == 2:
                await eventually(lambda: _said_goodbye(wire), what="the server's goodbye")
        wire.close()
    assert connections == 2
    assert seen[0].startswith(b"POST /path?q=1 HTTP/1.1\r\n")
    assert b"x-test: 1\r\n" in seen[0]
    assert seen[0].endswith(b"\r\n\r\nabc")


@pytest.mark.parametrize(("said", "error"), [(b"", httpx.ReadTimeout), (ANSWER[:-1], httpx.ReadError)])
async def test_silence_and_half_an_answer_are_transport_errors(said: bytes, error: type[Exception]) -> None:
    async def badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        if said:
            writer.close()
            return
        await reader.read()  # until the caller gives up
        writer.close()

    async with served(badly) as url:
        wire = Wire(url, answer_s=0.2 if not said else 10)
        with pytest.raises(error):
            await wire.send(request(url))
        assert wire._idle == [], "what broke isn't used again"
