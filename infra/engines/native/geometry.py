"""The arithmetic of tiles and of upright pictures. Pure; all numbers are whole pixels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""Rows, columns, bands."""


@dataclass(frozen=True, slots=True)
class Box:
    """A window of a picture."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """First column after the window."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """First row after the window."""
        return self.top + self.height

    def scaled(self, factor: int) -> "Box":
        """The same window of the picture enlarged by `factor`."""
        return Box(self.left * factor, self.top * factor, self.width * factor, self.height * factor)

    def grown(self, by: int, *, width: int, height: int) -> "Box":
        """The window with `by` pixels more on each side, cut at the edges of a picture of this size."""
        left, top = max(0, self.left - by), max(0, self.top - by)
        right, bottom = min(width, self.right + by), min(height, self.bottom + by)
        return Box(left, top, right - left, bottom - top)

    def within(self, outer: "Box") -> "Box":
        """This window in the coordinates of `outer`, which contains it."""
        return Box(self.left - outer.left, self.top - outer.top, self.width, self.height)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a picture is cut for a network.

    Attributes:
        core: Longest side of a tile's own area.
        context: Pixels around what is kept that only inform the network.
        blend: Half the width over which neighbours cross-fade; 0 where `context` covers all that the
            network can see, so that tiles are the whole picture's result to the last rounding.
    """

    core: int
    context: int
    blend: int

    def tiles(self, width: int, height: int) -> Iterator["Tile"]:
        """All tiles, row by row from the top left."""
        for top, rows in _cuts(height, self.core):
            for left, columns in _cuts(width, self.core):
                core = Box(left, top, columns, rows)
                kept = core.grown(self.blend, width=width, height=height)
                yield Tile(
                    kept=kept,
                    seen=kept.grown(self.context, width=width, height=height),
                    fade_left=core.left + self.blend - kept.left if core.left else 0,
                    fade_top=core.top + self.blend - kept.top if core.top else 0,
                )

    def count(self, width: int, height: int) -> int:
        """How many tiles there are."""
        return len(_cuts(width, self.core)) * len(_cuts(height, self.core))


@dataclass(frozen=True, slots=True)
class Tile:
    """One piece of work.

    Attributes:
        kept: What is written of it.
        seen: What the network is given.
        fade_left: Columns at the left of `kept` that cross-fade with what lies there already.
        fade_top: Rows at the top, likewise.
    """

    kept: Box
    seen: Box
    fade_left: int
    fade_top: int


def _cuts(length: int, core: int) -> list[tuple[int, int]]:
    """Cut a side into as few pieces as fit `core`, as (start, length); equal, since narrow ones waste context."""
    pieces = -(-length // core)
    edges = [length * i // pieces for i in range(pieces + 1)]
    return [(edges[i], edges[i + 1] - edges[i]) for i in range(pieces)]


def cross_fade(old: Pixels, new: Pixels, *, fade_left: int, fade_top: int) -> Pixels:
    """Put `new` over `old`, rising from nothing to all within the first columns and rows.

    The weight is the product of two ramps, so there is no step along any edge of the band.
    """
    height, width = new.shape[:2]
    across = _ramp(width, fade_left)
    down = _ramp(height, fade_top)
    weight = (down[:, None] * across[None, :])[:, :, None]
    mixed = old.astype(np.float32) * (1 - weight) + new.astype(np.float32) * weight
    return (mixed + 0.5).astype(np.uint8)


def _ramp(length: int, fade: int) -> npt.NDArray[np.float32]:
    ramp = np.ones(length, np.float32)
    ramp[:fade] = (np.arange(fade, dtype=np.float32) + 0.5) / max(fade, 1)
    return ramp


RGBA_BANDS = 4
"""Colours and alpha; without alpha there are three."""
UPRIGHT = 1
"""The EXIF orientation of a picture that lies as it is shown."""


@dataclass(frozen=True, slots=True)
class Orientation:
    """How a stored picture is turned to be upright: transpose first, then mirror.

    Attributes:
        transpose: Swap rows and columns.
        mirror_x: Then reverse the columns.
        mirror_y: Then reverse the rows.
    """

    transpose: bool
    mirror_x: bool
    mirror_y: bool

    @classmethod
    def of_exif(cls, value: int) -> "Orientation":
        """From EXIF's 1 to 8; anything else counts as upright, as viewers do."""
        return _ORIENTATIONS.get(value, _ORIENTATIONS[UPRIGHT])

    def upright_size(self, width: int, height: int) -> tuple[int, int]:
        """Size as shown, of a picture stored as `width` x `height`."""
        return (height, width) if self.transpose else (width, height)

    def stored_box(self, box: Box, *, width: int, height: int) -> Box:
        """Where an upright window lies in a picture stored as `width` x `height`."""
        shown_width, shown_height = self.upright_size(width, height)
        left = shown_width - box.right if self.mirror_x else box.left
        top = shown_height - box.bottom if self.mirror_y else box.top
        return Box(top, left, box.height, box.width) if self.transpose else Box(left, top, box.width, box.height)

    def turn(self, pixels: Pixels) -> Pixels:
        """A stored window, upright."""
        if self.transpose:
            pixels = pixels.transpose(1, 0, 2)
        if self.mirror_x:
            pixels = pixels[:, ::-1]
        if self.mirror_y:
            pixels = pixels[::-1]
        return pixels


_ORIENTATIONS = {
    1: Orientation(transpose=False, mirror_x=False, mirror_y=False),
    2: Orientation(transpose=False, mirror_x=True, mirror_y=False),
    3: Orientation(transpose=False, mirror_x=True, mirror_y=True),
    4: Orientation(transpose=False, mirror_x=False, mirror_y=True),
    5: Orientation(transpose=True, mirror_x=False, mirror_y=False),
    6: Orientation(transpose=True, mirror_x=True, mirror_y=False),
    7: Orientation(transpose=True, mirror_x=True, mirror_y=True),
    8: Orientation(transpose=True, mirror_x=False, mirror_y=True),
}
