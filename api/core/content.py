"""A result's bytes: only of a settled generation, only within retention, checked against their record."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from api import present
from api.core.ranges import Span, UnsatisfiableError, not_modified, requested_span
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from infra.generations import ArtifactRecord, GenerationRecord
from infra.storage.store import BlobMissingError, BlobStore
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import Status

_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "video/mp4": "mp4"}
_BASE64_GROUP = 3
"""Bytes that become four characters; pieces are encoded in multiples of it, so that they join."""


class CutShortError(Exception):
    """The stored bytes are not those of the record; found while they were being sent."""


def deliverable(record: GenerationRecord, index: int) -> ArtifactRecord:
    """The artifact to deliver.

    Raises:
        ApiError: 409 before the end, 404 without such a result, 410 after retention.
    """
    about = {"operation_id": record.request.operation_id, "task_id": record.task_id}
    status = record.credit_status.value
    if record.status is Status.PENDING:
        raise _about(refuse(Code.TASK_NOT_FINISHED, "The task has no result yet.", **about), status)
    if record.status is not Status.COMPLETED:  # then its credits are settled, or back and it came late
        raise _about(refuse(Code.RESOURCE_NOT_FOUND, "The task ended without a result.", **about), status)
    artifact = next((one for one in record.artifacts if one.index == index), None)
    if artifact is None:
        count = len(record.artifacts)
        short = f" Of {record.partial.asked} asked for, the others were not delivered." if record.partial else ""
        highest = f"; `index` goes from 0 to {count - 1}" if count else ""
        message = f"The task has {count} results{highest}.{short}"
        raise _about(refuse(Code.RESOURCE_NOT_FOUND, message, param="index", **about), status)
    if artifact.expires_at <= datetime.now(UTC):
        message = f"The result was kept until {artifact.expires_at.isoformat()}."
        raise _about(refuse(Code.CONTENT_EXPIRED, message, **about), status)
    return artifact


async def serve(request: Request, store: BlobStore, record: GenerationRecord, index: int) -> Response:
    """Answer GET and HEAD of a result, whole or in part."""
    artifact = deliverable(record, index)
    etag = f'"{artifact.sha256}"'
    headers = present.headers(record) | {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'inline; filename="{_file_name(record, artifact)}"',
        "Cache-Control": "private, no-cache",  # a browser may keep it, and asks us each time
    }
    if not_modified(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    try:
        span = requested_span(request.headers.get("range"), request.headers.get("if-range"), etag, artifact.size)
    except UnsatisfiableError as error:
        failure = Failure(
            code=Code.RANGE_NOT_SATISFIABLE, message=f"The content has {artifact.size} bytes.", param="range"
        )
        raise ApiError(
            failure,
            operation_id=record.request.operation_id,
            task_id=record.task_id,
            credit_status=record.credit_status.value,
            headers={"Content-Range": f"bytes */{artifact.size}"},
        ) from error
    await _revalidate(store, artifact)
    whole = Span(0, artifact.size)
    if span is not None:
        headers["Content-Range"] = span.content_range(artifact.size)
    headers["Content-Length"] = str((span or whole).size)
    status = 200 if span is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=artifact.mime)
    stream = await read(store, artifact, span)
    return StreamingResponse(stream, status_code=status, headers=headers, media_type=artifact.mime)


async def as_json(store: BlobStore, record: GenerationRecord, *, asked_as: str) -> Response:
    """`{created, data: [{b64_json}], credits, partial?, possible_duplicate_of?}`, encoded while it streams."""
    artifacts = [deliverable(record, artifact.index) for artifact in record.artifacts]
    for artifact in artifacts:
        await _revalidate(store, artifact)

    async def pieces() -> AsyncIterator[bytes]:
        yield f'{{"created":{json.dumps(int(record.created_at.timestamp()))},"data":['.encode()
        for place, artifact in enumerate(artifacts):
            yield b',{"b64_json":"' if place else b'{"b64_json":"'
            async for piece in _encoded(await read(store, artifact, None)):
                yield piece
            yield b'"}'
        rest = present.statement(record) | present.duplicate(record, asked_as)
        yield b"]," + json.dumps(rest, separators=(",", ":")).encode()[1:]

    headers = present.headers(record, asked_as=asked_as)
    return StreamingResponse(pieces(), headers=headers, media_type="application/json")


async def read(store: BlobStore, artifact: ArtifactRecord, span: Span | None) -> AsyncIterator[bytes]:
    """The bytes; of a whole read the last piece is held back until the digest is known to be right."""
    try:
        if span is not None:
            return await store.open(artifact.sha256, span.start, span.end)
        return _verified(await store.open(artifact.sha256), artifact.sha256)
    except BlobMissingError as error:
        raise _lost() from error


async def _verified(stream: AsyncIterator[bytes], sha256: str) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    held_back = b""
    async for piece in stream:
        if held_back:
            yield held_back
        digest.update(piece)
        held_back = piece
    if digest.hexdigest() != sha256:
        raise CutShortError  # the client sees fewer bytes than announced, which is what happened
    yield held_back


async def _encoded(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in stream:
        rest += piece
        usable = len(rest) - len(rest) % _BASE64_GROUP
        yield base64.b64encode(rest[:usable])
        rest = rest[usable:]
    yield base64.b64encode(rest)


async def _revalidate(store: BlobStore, artifact: ArtifactRecord) -> None:
    async with answer_within(READ, "object store"):
        if await store.head(artifact.sha256) != artifact.size:
            raise _lost()


def _lost() -> ApiError:
    return ApiError(
        Failure(code=Code.INTERNAL_ERROR, message="The stored result is not whole. We were told of it.")
    )


def _about(error: ApiError, credit_status: str) -> ApiError:
    error.credit_status = credit_status
    return error


def _file_name(record: GenerationRecord, artifact: ArtifactRecord) -> str:
    """From our own ids only; nothing that a caller chose gets into a header."""
    return f"{record.task_id}-{artifact.index}.{_SUFFIXES.get(artifact.mime, 'bin')}"
