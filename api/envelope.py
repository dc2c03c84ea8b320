"""What surrounds every request: its id, the last resort for errors, and bodies that nobody reads to the end."""

import asyncio
import re
import time
import uuid

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors

log = structlog.get_logger(__name__)

LINGER_BYTES_MAX = 1_048_576
LINGER_S_MAX = 1.0
"""After an answer that came before the body's end, this much is still read and thrown away, so that the
answer is not lost in a connection reset; then the connection is closed."""
_OWN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


class Envelope:
    """ASGI middleware, outermost."""

    def __init__(self, app: ASGIApp) -> None:
        """`app` is everything else."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
        started = time.monotonic()
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:  # the last resort: any fault of ours must still be answered in the one shape
            log.exception("unhandled", path=scope["path"])
            if exchange.status is None:
                await errors.response(errors.internal_error())(scope, exchange.receive, exchange.send)
            else:
                raise  # the answer has begun: only cutting the connection tells that it is not whole
        finally:
            log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=exchange.status,
                ms=round((time.monotonic() - started) * 1000, 1),
            )


class _Exchange:
    """One request and its answer on the wire."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        self.request_id = asked if _OWN_ID.fullmatch(asked) else f"req_{uuid.uuid4().hex}"
        self.status: int | None = None
        self._receive, self._send = receive, send
        self._body_pending = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._expects = "expect" in headers and headers["expect"].lower() == "100-continue"
        self._touched = False

    async def receive(self) -> Message:
        self._touched = True
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._body_pending = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["x-content-type-options"] = "nosniff"
            if self._body_pending:
                headers["connection"] = "close"
        elif self._body_pending and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        if self._expects and not self._touched:
            return  # the client waits for our word before it sends; asking now would invite the body
        left = LINGER_BYTES_MAX
        try:
            async with asyncio.timeout(LINGER_S_MAX):
                while self._body_pending and left > 0:
                    left -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
