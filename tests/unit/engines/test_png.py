"""A PNG whose strips were packed side by side is one stream, whole and checked."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infra.engines.native.geometry import Box
from infra.engines.native.png import STRIP_BYTES, write_png
from infra.engines.native.raster import Raster


@pytest.mark.parametrize("bands", [3, 4])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_strips_make_one_picture(tmp_path: Path, bands: int, threads: int) -> None:
    width, height = 700, 5 * STRIP_BYTES // (700 * bands) + 3
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, bands), dtype=np.uint8)
    raster = Raster(tmp_path / "raw", width=width, height=height, bands=bands)
    heard: list[float] = []
    with raster.create():
        raster.write(Box(0, 0, width, height), pixels)
        write_png(raster, tmp_path / "made.png", None, heard.append, threads=threads)
    with Image.open(tmp_path / "made.png") as made:
        assert np.array_equal(np.asarray(made), pixels)
    assert len(zlib.decompress(_stream(tmp_path / "made.png"))) == height * (1 + width * bands)
    assert heard == sorted(heard)
    assert heard[-1] == 1


def test_a_stop_between_strips_ends_the_work(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: float) -> None:
        raise Enough

    raster = Raster(tmp_path / "raw", width=1024, height=2048, bands=3)
    with raster.create(), pytest.raises(Enough):
        write_png(raster, tmp_path / "made.png", None, stop, threads=2)


def _stream(path: Path) -> bytes:
    """The joined stream. Unlike zlib, readers of pictures don't all look at its check."""
    data, at, found = path.read_bytes(), 8, b""
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == b"IDAT":
            found += data[at + 8 : at + 8 + length]
        at += 12 + length
    return found
