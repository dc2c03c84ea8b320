"""HTTP from the wire. What isn't HTTP never reaches the application; it is answered here, in the one shape.

The parser under it keeps a request's head until it is whole, however long that is and takes; so both are bounded.
"""

import asyncio
import json
import uuid

import structlog
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api import errors
from workflows.contracts.failures import Code, Failure

log = structlog.get_logger(__name__)
_MESSAGE = "This is not a well-formed HTTP request, or its method is none that we know."
HEAD_BYTES_MAX = 65_536
"""Of a request's line and headers; tokens and cookies need a few thousand."""
HEAD_S_MAX = 20.0
"""From a connection's or a request's first byte to the end of its head."""


_LEAVING = "holdfast.leaving"


def leaving_of(scope: Scope) -> asyncio.Event:
    """Set when this process begins to leave: an answer without an end of its own ends then."""
    leaving = scope.get("extensions", {}).get(_LEAVING, {}).get("event")
    return leaving if isinstance(leaving, asyncio.Event) else asyncio.Event()


class Wire(HttpToolsProtocol):
    """The server's protocol with bounds for heads, and with its refusals in our shape."""

    _head_bytes = 0
    _head_ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base has it
        """A connection that says nothing is closed, too."""
        super().connection_made(transport)
        self._leaving = asyncio.Event()
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is waited for."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count while a head isn't whole."""
        super().data_received(data)
        if self._head_ends is None or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(
                f"The request's head has {self._head_bytes} bytes or more; the limit is {HEAD_BYTES_MAX}."
            )

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        """It is whole."""
        self._end_head()
        super().on_headers_complete()
        # The application's task was only made and begins after this.
        self.scope.setdefault("extensions", {})[_LEAVING] = {"event": self._leaving}

    def shutdown(self) -> None:
        """Tell whoever answers without an end."""
        self._leaving.set()
        super().shutdown()

    def _begin_head(self) -> None:
        self._end_head()
        self._head_bytes = 0
        self._head_ends = self.loop.call_later(HEAD_S_MAX, self.transport.close)

    def _end_head(self) -> None:
        if self._head_ends is not None:
            self._head_ends.cancel()
            self._head_ends = None

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser gave up on; `msg` is the server's own text, which says no more."""
        del msg
        self._refuse(_MESSAGE)

    def _refuse(self, message: str) -> None:
        request_id = f"req_{uuid.uuid4().hex}"
        log.info("request", method=None, path=None, status=400, why=message, request_id=request_id)
        failure = Failure(code=Code.INVALID_REQUEST, message=message)
        body = json.dumps({"error": errors.body(failure)}, separators=(",", ":")).encode()
        head = (
            "HTTP/1.1 400 Bad Request",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            f"x-request-id: {request_id}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()
