"""Transparency is kept, and what hides under it doesn't bleed."""

import numpy as np

from infra.engines.native.alpha import FILL_STEPS, enlarge_alpha, spread_colours
from infra.engines.native.geometry import Pixels


def red_left_half() -> Pixels:
    """Red and opaque on the left, black and transparent on the right."""
    pixels = np.zeros((10, 40, 4), np.uint8)
    pixels[:, :20] = (250, 10, 20, 255)
    return pixels


def test_colours_spread_under_what_is_transparent() -> None:
    spread = spread_colours(red_left_half())
    assert (spread[:, : 20 + FILL_STEPS] == (250, 10, 20)).all()


def test_visible_colours_stay_as_they_are() -> None:
    pixels = np.random.default_rng(3).integers(0, 255, (12, 12, 4), dtype=np.uint8)
    visible = pixels[:, :, 3] > 0
    pixels[4:6, 4:6, 3] = 0
    visible[4:6, 4:6] = False
    assert (spread_colours(pixels)[visible] == pixels[:, :, :3][visible]).all()


def test_a_fully_transparent_picture_is_left_alone() -> None:
    pixels = np.zeros((6, 6, 4), np.uint8)
    assert (spread_colours(pixels) == 0).all()


def test_constant_alpha_stays_constant() -> None:
    for value in (0, 1, 128, 255):
        assert (enlarge_alpha(np.full((9, 7), value, np.uint8), 4) == value).all()


def test_a_soft_edge_stays_soft_and_rising() -> None:
    ramp = np.tile(np.linspace(0, 255, 16).astype(np.uint8), (8, 1))
    enlarged = enlarge_alpha(ramp, 2).astype(int)
    assert enlarged.shape == (16, 32)
    assert (np.diff(enlarged, axis=1) >= 0).all()
    assert len(np.unique(enlarged)) > 16
