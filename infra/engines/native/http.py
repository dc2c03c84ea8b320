"""A few lines of HTTP/1.1 over a Unix socket: enough for one host's agent, without a framework's memory."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11

BODY_MAX = 64 * 1024
"""Bytes of a request's body; an order is about 1 KiB."""
READ_AT_ONCE = 16 * 1024


class Request:
    """One request: method, path parts, query and JSON body."""

    def __init__(self, method: str, target: str, body: bytes) -> None:
        """Parse it.

        Raises:
            ValueError: The body isn't a JSON object.
        """
        address = urlsplit(target)
        self.method = method
        self.parts = tuple(part for part in address.path.split("/") if part)
        self.query = dict(parse_qsl(address.query))
        self.body = json.loads(body) if body else {}
        if not isinstance(self.body, dict):
            raise ValueError("the body is no object")  # noqa: TRY004 - one error for all that is malformed


Answer = tuple[int, dict[str, Any]]
Handler = Callable[[Request], Awaitable[Answer]]


async def serve_connection(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests on one connection until it closes."""
    connection = h11.Connection(h11.SERVER)
    try:
        while True:
            request = await _receive(connection, reader)
            if request is None:
                break
            status, body = await _answer(handler, *request)
            payload = json.dumps(body).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(payload)))]
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(payload),
                h11.EndOfMessage(),
            ):
                writer.write(connection.send(event) or b"")
            await writer.drain()
            if connection.our_state is h11.MUST_CLOSE:
                break
            connection.start_next_cycle()
    except (h11.ProtocolError, ConnectionError, asyncio.IncompleteReadError):
        pass  # the other side went away or speaks no HTTP; there is nobody to tell
    finally:
        writer.close()


async def _answer(handler: Handler, method: str, target: str, body: bytes) -> Answer:
    try:
        return await handler(Request(method, target, body))
    except ValueError as error:
        return 400, {"error": str(error)}


async def _receive(connection: h11.Connection, reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_AT_ONCE))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_MAX:
                raise h11.RemoteProtocolError("body too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return head.method.decode(), head.target.decode(), bytes(body)
        else:
            return None
