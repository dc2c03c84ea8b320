"""Clients that don't speak HTTP to its end: each is answered in the one shape or let go, and holds nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from api import bodies, wire
from api.uploads import multipart
from tests.contract.world import CANVAS, User, World
from tests.support.eventually import eventually


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    url = urlsplit(str(world.client.base_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def upload(user: User, length: int) -> bytes:
    """The head of an upload, and the begin of its body."""
    return (
        f"POST {CANVAS}/images/edits/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {user.token}\r\n"
        "X-IC-Operation-ID: op-1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {length}\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
        "Content-Type: image/png\r\n\r\nabc"
    ).encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 a TLS greeting\r\n\r\n",
        b"POST /live HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /live HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: x\r\nCookie: ".ljust(wire.HEAD_BYTES_MAX + 1, b"a"),
    ],
    ids=["no http", "negative length", "two lengths", "a head without end"],
)
async def test_what_is_no_request_is_refused_in_the_one_shape(world: World, sent: bytes) -> None:
    async with connected(world) as (reader, writer):
        writer.write(sent)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"x-request-id: req_" in head
    assert json.loads(body)["error"]["code"] == "invalid_request"


@pytest.mark.parametrize("sent", [b"", b"GET /live HTTP/1.1\r\nHost: x\r\n"], ids=["silent", "half a head"])
async def test_who_never_ends_a_head_is_let_go(world: World, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(wire, "HEAD_S_MAX", 0.1)
    async with connected(world) as (reader, writer):
        writer.write(sent)
        assert await reader.read() == b""


async def test_the_heads_limit_is_each_requests_own(world: World) -> None:
    head = b"GET /live HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * (wire.HEAD_BYTES_MAX // 2) + b"\r\n\r\n"
    async with connected(world) as (reader, writer):
        for _ in range(4):
            writer.write(head)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            await reader.readuntil(b"}")


async def test_an_upload_that_trickles_ends(world: World, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "UPLOAD_S_MAX", 0.1)
    async with connected(world) as (reader, writer):
        writer.write(upload(user, 1_000_000))

        def trickle() -> bool:
            writer.write(b"x")
            return answer.done()

        answer = asyncio.ensure_future(reader.readuntil(b"}}"))
        await eventually(trickle, what="the refusal")
        assert b"the limit is that" in await answer
    await eventually(lambda: world.spooled() == [])


async def test_a_small_body_that_never_comes_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "JSON_S_MAX", 0.1)
    async with connected(world) as (reader, writer):
        writer.write(b"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
