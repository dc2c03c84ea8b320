"""One file that holds a whole stack: a compressed tar with a manifest at its end, each member under its digest.

The manifest comes last, so that a file that was cut off has none. Names are taken from a short list of forms
and nothing else: no member can lead out of the places meant for it.
"""

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

MANIFEST = "manifest.json"
DATABASE = "database.dump"
TEMPORAL = "temporal.db"
SECRETS = "secrets.json"
JOURNAL = "host/journal.db"
PORTS = "run/ports.json"
MANIFEST_BYTES_MAX = 256 * 1024 * 1024
"""Some 200 bytes a blob: a million of them fit."""
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_FORMS = re.compile(
    "|".join(map(re.escape, (DATABASE, TEMPORAL, SECRETS, JOURNAL, PORTS)))
    + r"|store/blobs/([0-9a-f]{2})/([0-9a-f]{2})/\1\2[0-9a-f]{60}"
    rf"|engines/{_NAME}/runs/{_NAME}/{_NAME}"
)
_CHUNK = 1024 * 1024
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, ValidationError, UnicodeDecodeError)


class ArchiveDamagedError(Exception):
    """The file is not a whole, unchanged backup; the message says in what."""


class Entry(BaseModel):
    """One member: bytes and their SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Manifest(BaseModel):
    """What a backup says of itself.

    Attributes:
        format: Of the file.
        holdfast: The version that made it.
        created_at: When.
        postgres: Version of the wheel that its database was dumped by.
        temporal: Version of the wheel whose server wrote its histories.
        migrations: Applied in its database.
        store: False when its blobs lie in an object store of the operator's.
        files: By name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    holdfast: str
    created_at: AwareDatetime
    postgres: str
    temporal: str
    migrations: tuple[str, ...]
    store: bool
    files: dict[str, Entry] = {}

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(entry.size for entry in self.files.values())


def is_allowed(name: str) -> bool:
    """Whether a member may be named so."""
    return _FORMS.fullmatch(name) is not None


def write(target: Path, sources: Iterable[tuple[str, Path]], manifest: Manifest) -> Manifest:
    """Write a new archive; it appears under its name only when it is whole and on the disk.

    Args:
        target: Must not exist. Made readable by its owner alone, since secrets are inside.
        sources: Name and file of each member.
        manifest: Without its files.

    Raises:
        OSError: It can't be written; nothing is left behind.
    """
    staged = target.with_name(f"{target.name}.partial")
    files: dict[str, Entry] = {}
    staged.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
            # Pictures and the dump are compressed already; more effort would cost minutes and save nothing.
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as tar:
                for name, path in sources:
                    files[name] = _add(tar, name, path)
                whole = manifest.model_copy(update={"files": files})
                text = whole.model_dump_json().encode()
                tar.addfile(_header(MANIFEST, len(text)), io.BytesIO(text))
            raw.flush()
            os.fsync(raw.fileno())
        staged.replace(target)
    finally:
        staged.unlink(missing_ok=True)
    return whole


def verify(source: Path) -> Manifest:
    """Read the whole archive and compare every byte with its manifest. Nothing is written.

    Raises:
        ArchiveDamagedError: Something is missing, changed, too much, or of a form that no backup has.
        OSError: The file can't be read.
    """
    files: dict[str, Entry] = {}
    manifest = None
    with _members(source) as members:
        for name, stream, size in members:
            if name != MANIFEST:
                files[name] = _digest(stream)
            elif size > MANIFEST_BYTES_MAX:
                raise ArchiveDamagedError("its manifest is too large")
            else:
                manifest = Manifest.model_validate_json(stream.read())
    if manifest is None:
        raise ArchiveDamagedError("it has no manifest; it was cut off, or is no backup")
    if manifest.files != files:
        names = sorted(
            name for name in manifest.files.keys() | files.keys() if manifest.files.get(name) != files.get(name)
        )
        raise ArchiveDamagedError(f"{len(names)} members differ from the manifest, as {names[0]}")
    return manifest


def extract(source: Path, manifest: Manifest, place: Callable[[str], Path | None]) -> None:
    """Write the members of a verified archive to where `place` puts each, None leaving it out.

    Files and folders are made for their owner alone, and nothing that exists is written to.

    Raises:
        ArchiveDamagedError: The file changed since it was verified.
        OSError: A place can't be written.
    """
    with _members(source) as members:
        for name, stream, _ in members:
            path = place(name) if name != MANIFEST else None
            if path is None:
                continue
            _make_private(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                if _digest(stream, file) != manifest.files.get(name):
                    raise ArchiveDamagedError(f"{name} changed while it was read")
                file.flush()
                os.fsync(file.fileno())


def _make_private(folder: Path) -> None:
    """Make a folder and those missing above it, each for its owner alone; `mkdir` does so with the last only."""
    if not folder.exists():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700)


@contextmanager
def _members(source: Path) -> Iterator[Iterator[tuple[str, IO[bytes], int]]]:
    try:
        with gzip.open(source) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as tar:
            yield _regular(tar)
            while unzipped.read(_CHUNK):  # to the very end, where gzip's own checksum stands
                pass
    except _DAMAGE as error:
        raise ArchiveDamagedError(str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno is None:  # how gzip says that it isn't one, or was changed
            raise ArchiveDamagedError(str(error)) from error
        raise


def _regular(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes], int]]:
    seen: set[str] = set()
    for member in tar:
        if member.name != MANIFEST and not is_allowed(member.name):
            raise ArchiveDamagedError(f"no backup has a member {member.name!r}")
        stream = tar.extractfile(member) if member.isreg() else None
        if stream is None:
            raise ArchiveDamagedError(f"{member.name} is not a plain file")
        if member.name in seen:
            raise ArchiveDamagedError(f"{member.name} is there twice")
        seen.add(member.name)
        yield member.name, stream, member.size


def _add(tar: tarfile.TarFile, name: str, path: Path) -> Entry:
    if not is_allowed(name):
        raise ValueError(f"{name} is not a name that a backup has")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        reader = _Digesting(file)
        tar.addfile(_header(name, size), reader)
    return Entry(size=size, sha256=reader.hexdigest())


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o600
    return header


def _digest(stream: IO[bytes], copy: IO[bytes] | None = None) -> Entry:
    found, size = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        found.update(chunk)
        size += len(chunk)
        if copy is not None:
            copy.write(chunk)
    return Entry(size=size, sha256=found.hexdigest())


class _Digesting(io.RawIOBase):
    """A file being read, and the digest of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._found = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._found.update(chunk)
        return chunk

    def hexdigest(self) -> str:
        return self._found.hexdigest()
