"""The type of a picture from its own first bytes; labels and names are never believed."""

import struct
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES = 32
"""Enough to tell every type below."""
PNG_CHUNKS_MAX = 100_000
"""A PNG with more chunks is refused; honest encoders write one for each 8 KiB or more."""

_SIGNATURES: tuple[tuple[str, int, bytes], ...] = (
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/gif", 0, b"GIF87a"),
    ("image/gif", 0, b"GIF89a"),
    ("image/webp", 8, b"WEBP"),
    ("image/tiff", 0, b"II*\x00"),
    ("image/tiff", 0, b"MM\x00*"),
    ("image/bmp", 0, b"BM"),
    ("image/avif", 4, b"ftypavif"),
    ("image/avif", 4, b"ftypavis"),
    ("image/heic", 4, b"ftyphei"),
    ("image/heic", 4, b"ftyphev"),
    ("image/heic", 4, b"ftypmif1"),
    ("image/heic", 4, b"ftypmsf1"),
    ("video/quicktime", 4, b"ftypqt  "),
    ("video/mp4", 4, b"ftyp"),
    ("application/pdf", 0, b"%PDF"),
)
SUFFIXES: dict[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "jpe": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "bmp": "image/bmp",
    "avif": "image/avif",
    "heic": "image/heic",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
}
"""What a file name promises. A name without a known suffix promises nothing."""
LABELS: dict[str, str] = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/heif": "image/heic",
}
"""Other spellings of the same label, as browsers have sent them."""


def sniff(head: bytes) -> str | None:
    """The type that `head`, a file's first `HEAD_BYTES`, says; None when it is none that we know."""
    for mime, offset, magic in _SIGNATURES:
        if head[offset : offset + len(magic)] == magic and (mime != "image/webp" or head[:4] == b"RIFF"):
            return mime
    return None


@dataclass(frozen=True, slots=True)
class PngStructure:
    """What a walk over a PNG's chunk headers found, without inflating anything.

    Attributes:
        frames: From `acTL`; 1 for a still picture. The decoder shows only the first frame and stays silent.
        complete: Whether `IEND` was reached, with its checksum there.
    """

    frames: int
    complete: bool


def walk_png(path: Path) -> PngStructure:
    """Visit every chunk header of a PNG; reads a few bytes of each."""
    frames = 1
    size = path.stat().st_size
    with path.open("rb") as file:
        position = 8
        for _ in range(PNG_CHUNKS_MAX):
            file.seek(position)
            head = file.read(8)
            if len(head) < 8:  # noqa: PLR2004 - a chunk's header is its length and its type, four bytes each
                break
            length, kind = struct.unpack(">I4s", head)
            position += 12 + length
            if position > size:
                break
            if kind == b"acTL":
                frames = struct.unpack(">I", file.read(4).rjust(4, b"\0"))[0]
            if kind == b"IEND":
                return PngStructure(frames=max(frames, 1), complete=True)
    return PngStructure(frames=max(frames, 1), complete=False)
