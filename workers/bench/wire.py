"""HTTP from the wire, for calls that are timed: what a caller's library does is no part of the platform's time."""

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

_HEAD_ENDS = b"\r\n\r\n"
_STATUS = slice(9, 12)
"""Where a status stands in `HTTP/1.1 202 Accepted`."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, read to its end.

    Attributes:
        response: The answer.
        asked_at: Unix seconds right before the request's first byte.
        seconds: From then to the answer's last byte.
    """

    response: httpx.Response
    asked_at: float
    seconds: float


class Wire:
    """Connections to one server, kept open, each used by one call at a time."""

    def __init__(self, url: str, *, answer_s: float) -> None:
        """Connects with the first call; `answer_s` bounds each."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._answer_s = answer_s
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, request: httpx.Request) -> Answered:
        """Send a request whose content is read, and read its answer.

        Raises:
            httpx.TransportError: The server can't be reached, or did not answer whole and in time.
        """
        lines = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1".encode()]
        lines += [name + b": " + value for name, value in request.headers.raw]
        message = b"\r\n".join(lines) + _HEAD_ENDS + request.content
        try:
            async with asyncio.timeout(self._answer_s):
                reader, writer = await self._connection()
                try:
                    asked_at, began = time.time(), time.perf_counter()
                    writer.write(message)
                    head, content = await _answer(reader)
                    seconds = time.perf_counter() - began
                except BaseException:  # whatever broke it, what would come on it now belongs to no call
                    writer.close()
                    raise
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time", request=request) from error
        except (OSError, EOFError) as error:
            raise httpx.ReadError(str(error), request=request) from error
        self._idle.append((reader, writer))
        status = int(head[_STATUS])
        return Answered(httpx.Response(status, content=content, request=request), asked_at, seconds)

    def close(self) -> None:
        """Close all that are idle."""
        for _, writer in self._idle:
            writer.close()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(_HEAD_ENDS)
    length = head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
    return head, await reader.readexactly(int(length))
