"""The object store: a local folder, S3, GCS or Azure behind one interface. Keys are SHA-256 digests.

A blob is whole or absent: the local store links a finished, flushed file into its place; the clouds
put atomically. So putting the same bytes twice is harmless, and nobody can tell whether they were there.
"""

import asyncio
import hashlib
import os
import shutil
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store, from_url

from infra.settings import Settings
from infra.storage.signing import Signer
from workflows.contracts.hosts import SignedAddress
from workflows.contracts.media import BlobRef

if TYPE_CHECKING:
    from obstore import GetOptions  # exists for type checkers only

CHUNK_BYTES = 256 * 1024
LIST_BATCH = 500


class BlobMissingError(Exception):
    """No bytes of that digest are in the store."""


class BlobCorruptError(Exception):
    """The bytes fetched don't have the digest that they are stored under."""


class StoreAwayError(Exception):
    """The object store did not answer."""


class BlobStore:
    """Content-addressed bytes."""

    def __init__(
        self,
        store: LocalStore | S3Store | GCSStore | AzureStore,
        *,
        signer: Signer,
        folder: Path | None = None,
    ) -> None:
        """`folder` is the root of a local store, and None for one in a cloud."""
        self._store = store
        self._folder = folder
        self.signer = signer

    @classmethod
    def from_settings(cls, settings: Settings) -> "BlobStore":
        """The store that the settings name. Connects to nothing yet."""
        signer = Signer(settings.signing_secret.get_secret_value(), settings.internal_url)
        url = settings.object_store_url
        if url is None or url.startswith("file:"):
            folder = settings.home / "store" if url is None else Path(unquote(urlsplit(url).path))
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return cls(LocalStore(folder), signer=signer, folder=folder)
        store = from_url(url)
        if isinstance(store, S3Store | GCSStore | AzureStore):
            return cls(store, signer=signer)
        raise ValueError("HOLDFAST_OBJECT_STORE_URL must start with s3://, gs://, az:// or file:///")

    @property
    def is_local(self) -> bool:
        """Whether blobs are served by our own signed addresses."""
        return self._folder is not None

    async def put_file(self, path: Path, sha256: str) -> None:
        """Store the file under its digest, which the caller computed. Idempotent; the file may be removed after.

        Raises:
            StoreAwayError: The store did not take it.
        """
        if self._folder is not None:
            await asyncio.to_thread(_link, path, self._folder / key(sha256))
            return
        try:
            await obstore.put_async(self._store, key(sha256), path)
        except obstore.exceptions.BaseError as error:
            raise StoreAwayError from error

    async def open(self, sha256: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, opened now and read as they are consumed.

        Raises:
            BlobMissingError: Nothing is stored under the digest.
            StoreAwayError: The store did not answer.
        """
        options: GetOptions = {}
        if end is not None:
            options["range"] = (start, end)
        elif start:
            options["range"] = {"offset": start}
        try:
            result = await obstore.get_async(self._store, key(sha256), options=options)
        except FileNotFoundError as error:
            raise BlobMissingError from error
        except obstore.exceptions.BaseError as error:
            raise StoreAwayError from error
        return _chunks(result)

    async def head(self, sha256: str) -> int | None:
        """The stored size in bytes, or None.

        Raises:
            StoreAwayError: The store did not answer.
        """
        if self._folder is not None:
            return _size(self._folder / key(sha256))
        try:
            return (await obstore.head_async(self._store, key(sha256)))["size"]
        except FileNotFoundError:
            return None
        except obstore.exceptions.BaseError as error:
            raise StoreAwayError from error

    async def delete(self, sha256: str) -> None:
        """Remove the bytes; absent ones are no error. The caller holds the digest's lock, see `records`."""
        try:
            await obstore.delete_async(self._store, key(sha256))
        except FileNotFoundError:
            return
        except obstore.exceptions.BaseError as error:
            raise StoreAwayError from error

    async def fetch_to(self, sha256: str, path: Path) -> None:
        """Copy the bytes to `path`, checking the digest on the way.

        Raises:
            BlobMissingError: Nothing is stored under the digest.
            BlobCorruptError: What is stored there is something else.
            StoreAwayError: The store did not answer.
        """
        found = hashlib.sha256()
        stream = await self.open(sha256)
        with path.open("wb") as file:  # a write of one chunk into the page cache takes microseconds
            async for chunk in stream:
                found.update(chunk)
                file.write(chunk)
        if found.hexdigest() != sha256:
            raise BlobCorruptError

    async def stored(self) -> AsyncIterator[tuple[str, int, datetime]]:
        """Digest, size and time of every blob in the store, for the sweep."""
        async for batch in obstore.list(self._store, prefix="blobs", chunk_size=LIST_BATCH):
            for meta in batch:
                yield meta["path"].rpartition("/")[2], meta["size"], meta["last_modified"]

    async def sign_get(self, blob: BlobRef, seconds: int) -> SignedAddress:
        """An address to read one blob."""
        return await self._sign("GET", blob, seconds)

    async def sign_put(self, blob: BlobRef, seconds: int) -> SignedAddress:
        """An address to write one blob; our own one checks digest and size while it streams."""
        return await self._sign("PUT", blob, seconds)

    async def _sign(self, method: Literal["GET", "PUT"], blob: BlobRef, seconds: int) -> SignedAddress:
        if isinstance(self._store, LocalStore):
            return self.signer.address(method, blob, seconds)
        lifetime = timedelta(seconds=seconds)
        url = await obstore.sign_async(self._store, method, key(blob.sha256), lifetime)
        return SignedAddress(url=url, method=method, expires_at=datetime.now(UTC) + lifetime)


def key(sha256: str) -> str:
    """Where a blob lies; two levels of folders keep directories small."""
    return f"blobs/{sha256[:2]}/{sha256[2:4]}/{sha256}"


async def _chunks(result: "obstore.GetResult") -> AsyncIterator[bytes]:
    async for chunk in result.stream(min_chunk_size=CHUNK_BYTES):
        yield chunk


def _size(path: Path) -> int | None:
    """Asked of the file system here and now: through another thread it takes thirty times as long."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreAwayError from error


def _link(path: Path, target: Path) -> None:
    """Put a finished file in its place: flushed first, visible whole, its folder flushed last.

    The flush happens whether or not the bytes were there, so the time taken doesn't tell.
    """
    _flush(path)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    staged = target.with_name(f".{uuid.uuid4().hex}")
    try:
        try:
            os.link(path, staged)
        except OSError:  # another filesystem, or one without hard links
            shutil.copyfile(path, staged)
            _flush(staged)
        staged.replace(target)
    finally:
        # Replacing one name of a file by another of the same file does nothing, by POSIX: the staged one stays.
        staged.unlink(missing_ok=True)
    _flush(target.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
