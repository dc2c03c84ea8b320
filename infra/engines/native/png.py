"""PNG from raw rows, a strip at a time.

libvips would map the whole raw file into memory to save it, so its share grew with the picture. Here memory is
bounded, and the place where a stop and a full disk are noticed is ours. Strips are packed side by side, each from
an empty window, and joined to one stream: zlib on one core took twice as long as libvips' own.
"""

import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from infra.engines.native.geometry import RGBA_BANDS, Box, Pixels
from infra.engines.native.raster import Raster

SIGNATURE = b"\x89PNG\r\n\x1a\n"
STRIP_BYTES = 1024 * 1024
LEVEL = 3
"""With the `sub` filter, 4096 x 4096 takes 0.6 s; level 4 with all filters takes 1.2 s for a tenth less."""
FILTER_SUB = 1
COLOUR_TYPES = {3: 2, RGBA_BANDS: 6}
RAW_DEFLATE = -15
"""A window of 32 KiB without zlib's own header and check, which stand around the joined strips once."""
ZLIB_HEADER = b"\x78\x5e"
ADLER_MODULUS = 65521


@dataclass(frozen=True, slots=True)
class _Packed:
    """A strip as it stands in the stream, and its share of the stream's check."""

    data: bytes
    adler: int
    length: int


def write_png(
    raster: Raster, target: Path, profile: bytes | None, tick: Callable[[float], None], *, threads: int
) -> None:
    """Write an opened raster as PNG, durable when this returns. Holds pixels and the profile, nothing else.

    Args:
        raster: 3 or 4 bands.
        target: A new file.
        profile: ICC profile of the values; None means sRGB.
        tick: Hears the fraction written; what it raises ends the work.
        threads: Strips that are packed at once.

    Raises:
        OSError: The disk is full or failing.
    """
    with target.open("wb") as file:
        file.write(SIGNATURE)
        header = (raster.width, raster.height, 8, COLOUR_TYPES[raster.bands], 0, 0, 0)
        _chunk(file, b"IHDR", struct.pack(">IIBBBBB", *header))
        if profile is not None:
            _chunk(file, b"iCCP", b"icc\0\0" + zlib.compress(profile))
        _chunk(file, b"IDAT", ZLIB_HEADER)
        adler = 1
        for strip, packed in _packed_strips(raster, threads):
            _chunk(file, b"IDAT", packed.data)
            adler = _joined(adler, packed)
            tick(strip.bottom / raster.height)
        _chunk(file, b"IDAT", struct.pack(">I", adler))
        _chunk(file, b"IEND", b"")
        file.flush()
        os.fsync(file.fileno())


def _packed_strips(raster: Raster, threads: int) -> Iterator[tuple[Box, _Packed]]:
    """All strips in order; so many are in memory as are packed at once, and one that waits."""
    rows_at_once = max(1, STRIP_BYTES // (raster.width * raster.bands))
    under_way: deque[tuple[Box, Future[_Packed]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="png") as pool:
        for top in range(0, raster.height, rows_at_once):
            strip = Box(0, top, raster.width, min(rows_at_once, raster.height - top))
            is_last = strip.bottom == raster.height
            under_way.append((strip, pool.submit(_pack, raster.read(strip), is_last=is_last)))
            if len(under_way) > threads:
                done, packed = under_way.popleft()
                yield done, packed.result()
        for done, packed in under_way:
            yield done, packed.result()


def _pack(pixels: Pixels, *, is_last: bool) -> _Packed:
    lines = _filtered(pixels)
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW_DEFLATE)
    data = packer.compress(lines) + packer.flush(zlib.Z_FINISH if is_last else zlib.Z_FULL_FLUSH)
    return _Packed(data, zlib.adler32(lines), len(lines))


def _joined(adler: int, strip: _Packed) -> int:
    """Adler-32 of what `adler` is of, followed by the strip."""
    low, high = adler & 0xFFFF, adler >> 16
    joined_high = high + (strip.adler >> 16) + strip.length * (low - 1)
    joined_low = low + (strip.adler & 0xFFFF) - 1
    return (joined_high % ADLER_MODULUS) << 16 | joined_low % ADLER_MODULUS


def _filtered(pixels: Pixels) -> bytes:
    """Each row as its filter's number and the differences to the left neighbour, modulo 256."""
    rows, columns, bands = pixels.shape
    lines = np.empty((rows, 1 + columns * bands), np.uint8)
    lines[:, 0] = FILTER_SUB
    differences = lines[:, 1:].reshape(rows, columns, bands)
    differences[:, 0] = pixels[:, 0]
    np.subtract(pixels[:, 1:], pixels[:, :-1], out=differences[:, 1:])
    lines[:, 1:] = differences.reshape(rows, -1)
    return lines.tobytes()


def _chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    if data or kind == b"IEND":
        file.write(struct.pack(">I", len(data)) + kind)
        file.write(data)
        file.write(struct.pack(">I", zlib.crc32(data, zlib.crc32(kind))))
