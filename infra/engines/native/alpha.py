"""Transparency: enlarged apart from the colours, which it never tints."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from infra.engines.native.geometry import Pixels

FILL_STEPS = 8
"""How far, in pixels, colours are spread under what is fully transparent. What lies further off hardly moves
a visible pixel, and the spread must fit in a tile's margin for neighbouring tiles to agree."""


def spread_colours(pixels: Pixels) -> Pixels:
    """RGB of an RGBA window, with neighbouring colours spread under fully transparent pixels.

    Programs leave black or white there; a network would pull that into the visible edge.
    """
    colours = pixels[:, :, :3].astype(np.float32)
    known = pixels[:, :, 3] > 0
    if known.all() or not known.any():
        return np.ascontiguousarray(pixels[:, :, :3])
    for _ in range(FILL_STEPS):
        weight = _neighbours(known.astype(np.float32)[:, :, None])
        reached = ~known & (weight[:, :, 0] > 0)
        if not reached.any():
            break
        total = _neighbours(colours * known[:, :, None])
        colours[reached] = total[reached] / weight[reached]
        known = known | reached
    return (colours + 0.5).astype(np.uint8)


def enlarge_alpha(alpha: npt.NDArray[np.uint8], factor: int) -> npt.NDArray[np.uint8]:
    """Cubic interpolation; a constant stays exactly constant, and it looks at most 2 pixels far."""
    height, width = alpha.shape
    plane = Image.fromarray(alpha).resize((width * factor, height * factor), Image.Resampling.BICUBIC)
    return np.asarray(plane)


def _neighbours(planes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Sum over each pixel's 3x3 surroundings."""
    padded = np.pad(planes, ((1, 1), (1, 1), (0, 0)))
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    summed: npt.NDArray[np.float32] = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    return summed
