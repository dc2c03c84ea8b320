"""Small JSON bodies, bounded while they stream."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from api.errors import refuse
from workflows.contracts.failures import Code
from workflows.contracts.message import recordable

JSON_BYTES_MAX = 64 * 1024
JSON_S_MAX = 30.0
"""Until such a small body is there whole."""


async def read_json(request: Request, *, bytes_max: int = JSON_BYTES_MAX) -> dict[str, Any]:
    """The body as a JSON object; an absent one is `{}`.

    Raises:
        ApiError: 415 for another type, 413 over the limit, 400 when it isn't a JSON object.
    """
    raw = bytearray()
    try:
        async with asyncio.timeout(JSON_S_MAX):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > bytes_max:
                    message = f"The body has {len(raw)} bytes or more; the limit is {bytes_max}."
                    raise refuse(Code.PAYLOAD_TOO_LARGE, message)
    except TimeoutError as error:
        raise refuse(Code.INVALID_REQUEST, f"The body took over {JSON_S_MAX:g} s; the limit is that.") from error
    except ClientDisconnect as error:
        raise refuse(Code.INVALID_REQUEST, "The client went away before the body's end.") from error
    if not raw.strip():
        return {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, "This address takes application/json.", param="content-type")
    try:
        parsed = json.loads(raw)
        odd = any(recordable(text) != text for text in _texts(parsed))
    except (ValueError, RecursionError) as error:
        raise refuse(Code.INVALID_REQUEST, "The body is not well-formed JSON.") from error
    if not isinstance(parsed, dict):
        raise refuse(Code.INVALID_REQUEST, "The body must be a JSON object.")
    if odd:
        raise refuse(Code.INVALID_REQUEST, "The body holds a NUL character or half of a surrogate pair.")
    return parsed


def _texts(value: object) -> Iterator[str]:
    """Every string inside, names too."""
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            yield from value
            for one in value.values():
                yield from _texts(one)
