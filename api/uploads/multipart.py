"""Multipart bodies as streams: each limit is checked on the way, and nothing is read after a refusal."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from api.errors import ApiError, refuse
from workflows.contracts.failures import Code

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks  # exists for type checkers only

MULTIPART = "multipart/form-data"
FIELDS_MAX = 64
FILES_MAX = 32
FIELD_BYTES_MAX = 64 * 1024
"""Of one text field; prompts are the longest."""
HEADER_BYTES_MAX = 8 * 1024
FRAMING_BYTES = 1_048_576
"""Allowed on top of the files, for text fields, boundaries and part headers."""
STALL_S = 30.0
"""A client that sends nothing for so long has gone."""
UPLOAD_S_MAX = 900.0
"""Until a body is there whole: 50 MiB over half a megabit a second. What trickles holds its files no longer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of one file, and of the whole body."""

    file_bytes_max: int
    body_bytes_max: int


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that arrived whole. `label` and `filename` are the client's words, to be judged."""

    field: str
    path: Path
    sha256: str
    size: int
    label: str | None
    filename: str | None


@dataclass(frozen=True, slots=True)
class Form:
    """A whole body: text fields by name, and files in the order in which they came."""

    fields: dict[str, str]
    files: tuple[UploadedFile, ...]


async def read_form(request: Request, new_path: Callable[[], Path], limits: Limits) -> Form:
    """Stream a multipart body; each file of it goes to a new path.

    Raises:
        ApiError: 415 for another type of body, 413 for one over a limit, 400 for one that isn't well-formed.
    """
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    if content_type.decode("latin-1").lower() != MULTIPART:
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, f"This address takes {MULTIPART}.", param="content-type")
    boundary = options.get(b"boundary")
    if not boundary:
        raise refuse(Code.INVALID_REQUEST, "The content type names no boundary.", param="content-type")
    _refuse_announced(request, limits)
    collector = _Collector(new_path, limits)
    try:
        parser = MultipartParser(boundary, collector.callbacks(), max_header_size=HEADER_BYTES_MAX)
        async for chunk in _chunks(request):
            collector.count(len(chunk))
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise refuse(Code.INVALID_REQUEST, "The body is not well-formed multipart.") from error
    finally:
        collector.close()
    if not collector.ended:
        raise refuse(Code.INVALID_REQUEST, "The body ends before its last boundary: it is cut off.")
    return Form(fields=collector.fields, files=tuple(collector.files))


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    stream = request.stream().__aiter__()
    ends_at = time.monotonic() + UPLOAD_S_MAX
    while True:
        if time.monotonic() > ends_at:
            raise refuse(Code.INVALID_REQUEST, f"The body took over {UPLOAD_S_MAX:g} s; the limit is that.")
        try:
            async with asyncio.timeout(STALL_S):
                chunk = await anext(stream, None)
        except TimeoutError as error:
            raise refuse(Code.INVALID_REQUEST, f"Nothing came for {STALL_S:g} s; the limit is that.") from error
        except ClientDisconnect as error:
            raise refuse(Code.INVALID_REQUEST, "The client went away before the body's end.") from error
        if chunk is None:
            return
        yield chunk


def _refuse_announced(request: Request, limits: Limits) -> None:
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limits.body_bytes_max:
        raise _too_large("The body", int(announced), limits.body_bytes_max, None)


def _too_large(what: str, size: int, limit: int, param: str | None) -> ApiError:
    message = f"{what} has {size} bytes or more; the limit is {limit}."
    return refuse(Code.PAYLOAD_TOO_LARGE, message, param=param)


@dataclass(slots=True)
class _Part:
    """The part being read."""

    name: str = ""
    filename: str | None = None
    label: str | None = None
    size: int = 0
    text: bytearray = field(default_factory=bytearray)
    file: IO[bytes] | None = None
    path: Path | None = None
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)


class _Collector:
    """Receives the parser's events."""

    def __init__(self, new_path: Callable[[], Path], limits: Limits) -> None:
        self.fields: dict[str, str] = {}
        self.files: list[UploadedFile] = []
        self.ended = False
        self._new_path, self._limits = new_path, limits
        self._seen = 0
        self._part = _Part()
        self._header_name = bytearray()
        self._header_value = bytearray()

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def count(self, size: int) -> None:
        self._seen += size
        if self._seen > self._limits.body_bytes_max:
            raise _too_large("The body", self._seen, self._limits.body_bytes_max, None)

    def close(self) -> None:
        if self._part.file is not None:
            self._part.file.close()

    def _begin(self) -> None:
        self._part = _Part()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        name, value = bytes(self._header_name).lower(), bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()
        if name == b"content-type":
            self._part.label = value.decode("latin-1")
        elif name == b"content-disposition":
            _, options = parse_options_header(value)
            self._part.name = options.get(b"name", b"").decode("utf-8", "replace")
            filename = options.get(b"filename")
            self._part.filename = None if filename is None else filename.decode("utf-8", "replace")

    def _on_headers_finished(self) -> None:
        part = self._part
        if not part.name:
            raise refuse(Code.INVALID_REQUEST, "A part of the body has no name.")
        if len(part.name) > 100:  # noqa: PLR2004 - no field of ours is as long; keeps the name showable in errors
            raise refuse(Code.INVALID_REQUEST, "A part's name has more than 100 characters; the limit is 100.")
        if part.filename is None and not _is_file(part.label):
            if len(self.fields) >= FIELDS_MAX:
                message = f"The body has more than {FIELDS_MAX} fields; the limit is {FIELDS_MAX}."
                raise refuse(Code.INVALID_REQUEST, message, param=part.name)
            return
        if len(self.files) >= FILES_MAX:
            message = f"The body has more than {FILES_MAX} files; the limit is {FILES_MAX}."
            raise refuse(Code.INVALID_REQUEST, message, param=part.name)
        part.path = self._new_path()
        part.file = part.path.open("wb")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        part.size += end - start
        if part.file is None:
            if part.size > FIELD_BYTES_MAX:
                raise _too_large(f"`{part.name}`", part.size, FIELD_BYTES_MAX, part.name)
            part.text += data[start:end]
            return
        if part.size > self._limits.file_bytes_max:
            raise _too_large(f"`{part.name}`", part.size, self._limits.file_bytes_max, part.name)
        piece = memoryview(data)[start:end]
        part.digest.update(piece)
        part.file.write(piece)

    def _on_part_end(self) -> None:
        part = self._part
        if part.file is None or part.path is None:
            self._keep_text(part)
            return
        part.file.close()
        self.files.append(
            UploadedFile(part.name, part.path, part.digest.hexdigest(), part.size, part.label, part.filename)
        )

    def _keep_text(self, part: _Part) -> None:
        if part.name in self.fields:
            raise refuse(Code.INVALID_REQUEST, f"`{part.name}` came twice; the limit is once.", param=part.name)
        try:
            text = part.text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise refuse(Code.INVALID_REQUEST, f"`{part.name}` is not UTF-8.", param=part.name) from error
        if "\0" in text:
            raise refuse(Code.INVALID_REQUEST, f"`{part.name}` holds a NUL character.", param=part.name)
        self.fields[part.name] = text

    def _on_end(self) -> None:
        self.ended = True


def _is_file(label: str | None) -> bool:
    """A part without a file name is text, unless it is labelled as something else."""
    return label is not None and not label.lower().startswith("text/")
