"""libvips, wrapped: the only module that knows it. Loaders are chosen by us, never guessed from content.

libvips decodes in strips, so a picture of any size is measured in a few MiB; `fail_on="error"` turns
a missing end, which decoders paint grey, and a PNG's wrong checksum, which they pass over, into an error.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyvips

pyvips.cache_set_max(0)  # a cache of operations would keep callers' pictures in memory and files open

_LOADERS = {"image/png": "pngload", "image/jpeg": "jpegload", "image/webp": "webpload", "image/gif": "gifload"}
DECODABLE = frozenset(_LOADERS)
_TURNED = frozenset({5, 6, 7, 8})
"""EXIF orientations that swap width and height."""
_FULL_SCALE = {"uchar": 255.0, "ushort": 65535.0}
"""The two formats that the loaders below give."""


class UndecodableError(Exception):
    """The bytes are not a whole picture of the type."""


@dataclass(frozen=True, slots=True)
class Header:
    """A picture's header: upright size in pixels, frames, alpha and colour mode (`srgb`, `cmyk`, `b-w`…)."""

    width: int
    height: int
    frames: int
    has_alpha: bool
    mode: str


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest value of any colour band, as fractions of full scale, and the widest band."""

    lowest: float
    highest: float
    widest: float


def read_header(path: Path, mime: str) -> Header:
    """The header alone; no pixel is decoded.

    Raises:
        UndecodableError: The header makes no sense.
    """
    image = _open(path, mime)
    width, height = int(image.width), int(image.height)
    fields = set(image.get_fields())
    if "orientation" in fields and int(image.get("orientation")) in _TURNED:
        width, height = height, width
    frames = int(image.get("n-pages")) if "n-pages" in fields else 1
    return Header(
        width=width,
        height=height,
        frames=frames,
        has_alpha=bool(image.hasalpha()),
        mode=str(image.interpretation),
    )


def decode(path: Path, mime: str) -> Range:
    """Decode every pixel once, in strips, and say how the colours spread.

    Raises:
        UndecodableError: The picture is cut off or corrupt.
    """
    image = _open(path, mime)
    bands = int(image.bands)
    colours = bands - (1 if image.hasalpha() else 0)
    full_scale = _FULL_SCALE[str(image.format)]
    try:
        counts = image.hist_find()  # half the time of its statistics, and as good for the two ends
        table = np.frombuffer(counts.write_to_memory(), dtype=np.uint32).reshape(-1, bands)
    except pyvips.Error as error:
        raise UndecodableError from error
    ends = [np.flatnonzero(table[:, band])[[0, -1]] for band in range(max(colours, 1))]
    return Range(
        lowest=min(int(low) for low, _ in ends) / full_scale,
        highest=max(int(high) for _, high in ends) / full_scale,
        widest=max(int(high) - int(low) for low, high in ends) / full_scale,
    )


def _open(path: Path, mime: str) -> Any:
    loader = getattr(pyvips.Image, _LOADERS[mime])
    try:
        return loader(str(path), access="sequential", fail_on="error")
    except pyvips.Error as error:
        raise UndecodableError from error
