"""The caller's operation id, and the fingerprint that tells one body from another."""

import hashlib
import json
import re
from collections.abc import Mapping

from fastapi import Request

from api.errors import refuse
from workflows.contracts.failures import Code
from workflows.contracts.ids import OPERATION_ID_CHARS_MAX

OPERATION_HEADER = "x-ic-operation-id"
IDEMPOTENCY_HEADER = "idempotency-key"
INSIST_HEADER = "x-ic-allow-duplicate"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def operation_id(request: Request) -> str:
    """The operation id of a billable call.

    Raises:
        ApiError: 400 when it is missing, too long, not visible ASCII, or named twice differently.
    """
    sent = {*request.headers.getlist(OPERATION_HEADER), *request.headers.getlist(IDEMPOTENCY_HEADER)}
    if len(sent) > 1:
        message = "X-IC-Operation-ID and Idempotency-Key name the same thing, but differ; send one, once."
        raise refuse(Code.INVALID_REQUEST, message, param="X-IC-Operation-ID")
    found = "".join(sent)
    if not found:
        message = (
            "A billable call needs the header X-IC-Operation-ID: an id that you choose, once for each operation."
        )
        raise refuse(Code.OPERATION_ID_MISSING, message, param="X-IC-Operation-ID")
    if len(found) > OPERATION_ID_CHARS_MAX or not _VISIBLE.fullmatch(found):
        message = f"X-IC-Operation-ID takes 1 to {OPERATION_ID_CHARS_MAX} visible ASCII characters."
        raise refuse(Code.INVALID_REQUEST, message, param="X-IC-Operation-ID")
    return found


def insists(request: Request) -> bool:
    """Whether the caller wants a task of its own, whatever it asked for a moment ago.

    Raises:
        ApiError: 400 when the header says neither true nor false.
    """
    sent = request.headers.get(INSIST_HEADER, "false").lower()
    if sent not in {"true", "false"}:
        message = "X-IC-Allow-Duplicate takes `true` or `false`."
        raise refuse(Code.INVALID_REQUEST, message, param="X-IC-Allow-Duplicate")
    return sent == "true"


def fingerprint(fields: Mapping[str, str]) -> str:
    """SHA-256 over the canonical body; the order in which fields came doesn't count."""
    text = json.dumps(dict(fields), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differing(stored: Mapping[str, str], sent: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the fields that aren't the same in both bodies."""
    return tuple(sorted(name for name in stored.keys() | sent.keys() if stored.get(name) != sent.get(name)))
