"""Pictures for tests, good and bad, made here so that each byte is known."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

ORIENTATION = 0x0112


def noise(width: int = 64, height: int = 48, *, seed: int = 1) -> Image.Image:
    """A picture without two equal regions; another seed gives another one."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """The file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width: int = 64, height: int = 48, *, seed: int = 1) -> bytes:
    """A good PNG."""
    return encoded(noise(width, height, seed=seed))


def turned_jpeg(orientation: int) -> bytes:
    """A JPEG of 64 x 48 that says how it is to be turned."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(noise(), "JPEG", exif=exif)


def truncated_jpeg() -> bytes:
    """The first 60 % of a JPEG; its header is whole."""
    whole = encoded(noise(400, 300), "JPEG")
    return whole[: len(whole) * 6 // 10]


def animated(kind: str) -> bytes:
    """Two frames, as GIF, WEBP or PNG."""
    frames = [noise(seed=1), noise(seed=2)]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


def cmyk_jpeg() -> bytes:
    """As printers' tools write them."""
    return encoded(noise().convert("CMYK"), "JPEG")


def deep_png() -> bytes:
    """16 bits a channel, grey."""
    pixels = np.random.default_rng(1).integers(0, 65535, (48, 64), dtype=np.uint16)
    return encoded(Image.fromarray(pixels))


def palette_png() -> bytes:
    """16 colours, one of them transparent."""
    return encoded(noise().quantize(16), transparency=3)


def heic_head() -> bytes:
    """The first bytes of a HEIC whose major brand is the container's general one, as some cameras write it."""
    return b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic" + b"\0" * 100


def wrong_checksum(kind: bytes) -> bytes:
    """A PNG of which the first chunk of that kind has its last checksum byte wrong, and all else is whole."""
    whole = bytearray(png())
    start = whole.index(kind)
    length = int.from_bytes(whole[start - 4 : start], "big")
    whole[start + 4 + length + 3] ^= 0xFF
    return bytes(whole)


def bomb_png(side: int = 30_000) -> bytes:
    """A black PNG of `side` x `side` pixels, about 110 kB; decoded to RGB it would take 2.7 GB."""
    packer = zlib.compressobj(9)
    row = b"\0" * (1 + (side + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
