"""Pictures in: any accepted file becomes raw 8-bit RGB(A) rows on disk.

libvips streams, so memory follows a row of tiles and not the picture. Formats that can't be
streamed (progressive JPEG, interlaced PNG, WebP) are bounded by the model's limit on pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyvips

from infra.engines.native.geometry import RGBA_BANDS, UPRIGHT, Box, Orientation
from infra.engines.native.raster import Raster

pyvips.cache_set_max(0)  # operations are never repeated here; the cache would only keep pixels

ORIENTATION_FIELD = "orientation"
PROFILE_FIELD = "icc-profile-data"
ROWS_AT_ONCE = 128
"""At 8192 pixels wide and with alpha, 4 MiB."""

Tick = Callable[[float], None]
"""Hears the fraction done; what it raises ends the work."""


class PictureBroken(Exception):
    """The file can't be decoded to its end."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded picture: raw rows as stored, how to turn them upright, and the profile that gives them meaning.

    Attributes:
        raster: 3 or 4 bands.
        orientation: How it is turned to be shown.
        profile: The ICC profile of the RGB values; None means sRGB.
    """

    raster: Raster
    orientation: Orientation
    profile: bytes | None


def decode(source: Path, target: Path, tick: Tick) -> Decoded:
    """Decode a picture into raw rows at `target`.

    CMYK, and grey with a profile, are converted to sRGB; RGB keeps its values and its profile. 16 bits
    become 8. Only the first page of a file with several is read.

    Raises:
        PictureBroken: The file is damaged or no picture.
        OSError: The disk is full.
    """
    try:
        # No loader that trusts the file's name: what it is stands in its bytes.
        image = pyvips.Image.new_from_file(str(source), access="sequential", fail_on="truncated")
        orientation = Orientation.of_exif(_orientation(image))
        image, profile = _as_rgb(image)
        raster = Raster(target, width=image.width, height=image.height, bands=image.bands)
        with raster.create():  # reserves the blocks: a full disk is known before the work starts
            _copy_rows(image, raster, tick)
    except pyvips.Error as error:
        raise PictureBroken(str(error)) from error
    return Decoded(raster=raster, orientation=orientation, profile=profile)


def _copy_rows(image: Any, raster: Raster, tick: Tick) -> None:
    region = pyvips.Region.new(image)
    for top in range(0, image.height, ROWS_AT_ONCE):
        box = Box(0, top, image.width, min(ROWS_AT_ONCE, image.height - top))
        pixels = np.frombuffer(region.fetch(box.left, box.top, box.width, box.height), np.uint8)
        raster.write(box, pixels.reshape(box.height, box.width, image.bands))
        tick(box.bottom / image.height)


def _orientation(image: Any) -> int:
    return int(image.get(ORIENTATION_FIELD)) if image.get_typeof(ORIENTATION_FIELD) else UPRIGHT


def _as_rgb(image: Any) -> tuple[Any, bytes | None]:
    """8-bit RGB with or without alpha, and the profile that goes with it."""
    profile = bytes(image.get(PROFILE_FIELD)) if image.get_typeof(PROFILE_FIELD) else None
    if image.interpretation == "cmyk":
        # Without a profile of its own libvips supposes its built-in press profile, as viewers do.
        image = image.icc_transform("srgb", embedded=True, input_profile="cmyk", depth=8)
        profile = None
    elif image.interpretation in ("b-w", "grey16") and profile is not None:
        # A grey profile doesn't describe RGB values, so its meaning is worked into them.
        image = image.icc_transform("srgb", embedded=True, depth=8)
        profile = None
    if image.interpretation != "srgb":
        image = image.colourspace("srgb")
    if image.format != "uchar":
        image = image.cast("uchar")
    return image[0:RGBA_BANDS] if image.bands > RGBA_BANDS else image, profile
