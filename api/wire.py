"""HTTP from the wire. What isn't HTTP never reaches the application; it is answered here, in the one shape."""

import json
import uuid

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api import errors
from workflows.contracts.failures import Code, Failure

log = structlog.get_logger(__name__)
_MESSAGE = "This is not a well-formed HTTP request, or its method is none that we know."


class Wire(HttpToolsProtocol):
    """The server's protocol, with its own refusal in our shape."""

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser gave up on; `msg` is the server's own text and stays here."""
        request_id = f"req_{uuid.uuid4().hex}"
        log.info("request", method=None, path=None, status=400, why=msg, request_id=request_id)
        failure = Failure(code=Code.INVALID_REQUEST, message=_MESSAGE)
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
