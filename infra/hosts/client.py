"""The host's calls to the API's internal endpoint, and the moving of bytes. A host has no other way in."""

import asyncio
import hashlib
import os
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin

import httpx

from infra.orders import OrderKeys
from workflows.contracts.hosts import (
    HostReport,
    OrderRequest,
    ReportTaken,
    SignedAddress,
    StaleLease,
    UploadGrant,
    UploadRequest,
    Work,
)
from workflows.contracts.media import BlobRef

CALL_S = 5.0
"""One try of a call without a body worth mentioning."""
STALL_S = 20.0
"""A transfer that moves nothing for so long is broken off and tried again."""
KEEP_ALIVE_S = 15.0
"""Less than the API's 20 s, so that who calls never meets a connection that is being closed."""
CHUNK = 256 * 1024
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0

T = TypeVar("T")


class ApiAway(Exception):
    """The internal endpoint or the store didn't answer usably within the deadline."""


class ApiRefused(Exception):
    """A definite refusal that a retry won't change, as a wrong host token."""


class BytesWrong(Exception):
    """The store served something else than the blob that was named."""


class _Again(Exception):
    """This try failed in a way that a later one may not."""


class HostClient:
    """One host's client. Calls are tried again, with backoff and jitter, until their deadline."""

    def __init__(
        self, base_url: str, token: str, *, keys: OrderKeys, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Connect lazily.

        Args:
            base_url: Of the API, without `/internal/v1`.
            token: The host's bearer token; sent to the internal endpoint and nowhere else.
            keys: By which orders and permissions are checked before anybody sees them.
            transport: For tests.
        """
        self._keys = keys
        self._base_url = base_url.rstrip("/") + "/"
        self._authorization = {"authorization": f"Bearer {token}"}
        self._client = httpx.AsyncClient(
            timeout=CALL_S,
            transport=transport,
            follow_redirects=False,
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def report(self, report: HostReport) -> ReportTaken:
        """Say how the cards are. One try: the next report comes in a second.

        Raises:
            ApiAway: It wasn't taken.
            ApiRefused: The token is wrong.
        """
        try:
            response = await self._post("report", report.model_dump_json())
        except _Again as error:
            raise ApiAway(str(error)) from error
        if response.status_code == httpx.codes.NO_CONTENT:
            return ReportTaken()  # an API of before
        return ReportTaken.model_validate_json(response.content)

    async def order(self, request: OrderRequest, *, within_s: float) -> Work | StaleLease:
        """Exchange a lease for its work; StaleLease means that the lease isn't ours any more.

        Raises:
            ApiAway: No answer within the deadline. The order may have been counted as fetched.
            ApiRefused: The token is wrong.
            OrderRefused: What came isn't signed for this.
        """
        asked = request.model_copy(update={"nonce": _nonce()})

        async def once() -> Work | StaleLease:
            response = await self._post("orders", asked.model_dump_json())
            if response.status_code == httpx.codes.CONFLICT:
                return StaleLease.model_validate_json(response.content)
            return Work.model_validate_json(response.content)

        answer = await _persist(once, within_s=within_s)
        if isinstance(answer, Work):
            self._keys.check_work(answer, asked)
        return answer

    async def grant_upload(self, request: UploadRequest, *, within_s: float) -> UploadGrant | StaleLease:
        """Ask where one finished file goes; the fence is checked again.

        Raises:
            ApiAway: No answer within the deadline.
            ApiRefused: The token is wrong.
            OrderRefused: What came isn't signed for this.
        """
        asked = request.model_copy(update={"nonce": _nonce()})

        async def once() -> UploadGrant | StaleLease:
            response = await self._post("uploads", asked.model_dump_json())
            if response.status_code == httpx.codes.CONFLICT:
                return StaleLease.model_validate_json(response.content)
            return UploadGrant.model_validate_json(response.content)

        answer = await _persist(once, within_s=within_s)
        if isinstance(answer, UploadGrant):
            self._keys.check_grant(answer, asked)
        return answer

    async def download(self, source: SignedAddress, blob: BlobRef, path: Path, *, within_s: float) -> None:
        """Fetch a blob to `path`: whole and verified, or not at all.

        Raises:
            ApiAway: Not within the deadline.
            ApiRefused: The address isn't valid (any more).
            BytesWrong: What was served isn't the blob.
            OSError: The disk is full or failing.
        """
        partial = path.with_name(path.name + ".part")

        async def once() -> None:
            try:
                async with self._client.stream(source.method, self._absolute(source), timeout=STALL_S) as response:
                    _judge(response)
                    await _store(response.aiter_bytes(CHUNK), blob, partial)
            except httpx.HTTPError as error:
                raise _Again(repr(error)) from error
            partial.replace(path)

        try:
            await _persist(once, within_s=within_s)
        finally:
            partial.unlink(missing_ok=True)

    async def upload(self, target: SignedAddress, blob: BlobRef, path: Path, *, within_s: float) -> None:
        """Send a file; the store verifies digest and size.

        Raises:
            ApiAway: Not within the deadline.
            ApiRefused: The address isn't valid (any more), or the store found other bytes than named.
        """
        headers = {"content-length": str(blob.size), "content-type": blob.mime}

        async def once() -> None:
            try:
                response = await self._client.request(
                    target.method, self._absolute(target), content=_pieces(path), headers=headers, timeout=STALL_S
                )
            except httpx.HTTPError as error:
                raise _Again(repr(error)) from error
            _judge(response)

        await _persist(once, within_s=within_s)

    async def _post(self, name: str, body: str) -> httpx.Response:
        headers = self._authorization | {"content-type": "application/json"}
        try:
            response = await self._client.post(
                urljoin(self._base_url, f"internal/v1/{name}"), content=body, headers=headers
            )
        except httpx.HTTPError as error:
            raise _Again(repr(error)) from error
        if response.status_code != httpx.codes.CONFLICT:
            _judge(response)
        return response

    def _absolute(self, address: SignedAddress) -> str:
        return urljoin(self._base_url, address.url)


def _nonce() -> str:
    return secrets.token_hex(16)


def _judge(response: httpx.Response) -> None:
    """Tell a passing failure from a definite one.

    Raises:
        _Again: Worth another try.
        ApiRefused: Not worth one.
    """
    status = response.status_code
    if (
        status in (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
        or status >= httpx.codes.INTERNAL_SERVER_ERROR
    ):
        raise _Again(f"HTTP {status}")
    if not response.is_success:
        raise ApiRefused(f"HTTP {status}")


async def _persist(once: Callable[[], Awaitable[T]], *, within_s: float) -> T:
    deadline = time.monotonic() + within_s
    backoff_s = BACKOFF_FIRST_S
    while True:
        try:
            return await once()
        except _Again as error:
            pause_s = backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
            if time.monotonic() + pause_s > deadline:
                raise ApiAway(str(error)) from error
            await asyncio.sleep(pause_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)


async def _store(chunks: AsyncIterator[bytes], blob: BlobRef, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    handle = await asyncio.to_thread(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        async for chunk in chunks:
            size += len(chunk)
            if size > blob.size:
                raise BytesWrong(f"more than the {blob.size} bytes of {blob.sha256[:12]}")
            digest.update(chunk)
            await asyncio.to_thread(_write_all, handle, chunk)
    finally:
        os.close(handle)
    if size < blob.size:
        raise _Again(f"{size} of {blob.size} bytes")
    if digest.hexdigest() != blob.sha256:
        raise BytesWrong(f"other bytes than {blob.sha256[:12]}")


def _write_all(handle: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(handle, view) :]


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
    finally:
        file.close()
