"""Blobs of the local store by signed address: the signature is the whole permission."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.requests import ClientDisconnect

from api.errors import refuse
from api.parts import Parts, parts_of
from infra.storage.signing import Permit
from infra.storage.store import BlobMissingError
from workflows.contracts.failures import Code

router = APIRouter(prefix="/internal/v1/blobs", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Address:
    """A signed address that holds for this request."""

    parts: Parts
    sha256: str
    size: int
    mime: str


async def signed(
    request: Request,
    sha256: str,
    size: Annotated[int, Query(ge=0)],
    mime: Annotated[str, Query(max_length=100)],
    expires: int,
    signature: Annotated[str, Query(max_length=64)],
) -> Address:
    """Refuse what isn't signed by us for this method, or is over.

    Raises:
        ApiError: 403.
    """
    parts = parts_of(request)
    permit = Permit(request.method, sha256, size, mime, expires)
    if not parts.store.is_local or not parts.store.signer.allows(permit, signature):
        raise refuse(Code.FORBIDDEN, "The address is not valid, or not any more.")
    return Address(parts, sha256, size, mime)


Signed = Annotated[Address, Depends(signed)]


@router.get("/{sha256}")  # noqa: FAST003 - `signed` takes it, and checks it
async def fetch(address: Signed) -> Response:
    """The bytes."""
    try:
        stream = await address.parts.store.open(address.sha256)
    except BlobMissingError as error:
        raise refuse(Code.RESOURCE_NOT_FOUND, "No such blob.") from error
    return StreamingResponse(
        stream, media_type=address.mime, headers={"Content-Length": str(address.size), "Cache-Control": "no-store"}
    )


@router.put("/{sha256}")  # noqa: FAST003 - as above
async def store(request: Request, address: Signed) -> Response:
    """Take the bytes; what has another digest or size is refused and not stored."""
    with address.parts.spool.request() as folder:
        path = folder / "blob"
        await _receive(request, address, path)
        await address.parts.store.put_file(path, address.sha256)
    return Response(status_code=201)


async def _receive(request: Request, address: Address, path: Path) -> None:
    digest = hashlib.sha256()
    seen = 0
    try:
        with path.open("wb") as file:  # a chunk into the page cache takes microseconds
            async for chunk in request.stream():
                seen += len(chunk)
                if seen > address.size:
                    break
                digest.update(chunk)
                file.write(chunk)
    except ClientDisconnect as error:
        raise refuse(Code.INVALID_REQUEST, "The host went away before the body's end.") from error
    if seen != address.size or digest.hexdigest() != address.sha256:
        raise refuse(Code.INVALID_REQUEST, "The bytes are not those that the address is for.", param="body")
