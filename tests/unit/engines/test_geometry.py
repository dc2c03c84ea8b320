"""Tiles cover each pixel as they should, and upright is what viewers show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageOps

from infra.engines.native.geometry import Box, Orientation, Pixels, Tiling, cross_fade
from tests.support.pictures import ORIENTATION, noise

EXACT = Tiling(core=16, context=5, blend=0)
BLENDED = Tiling(core=16, context=3, blend=2)
sides = st.integers(1, 90)


@given(width=sides, height=sides)
def test_tiles_without_blend_cover_each_pixel_once(width: int, height: int) -> None:
    covered = np.zeros((height, width), int)
    for tile in EXACT.tiles(width, height):
        covered[tile.kept.top : tile.kept.bottom, tile.kept.left : tile.kept.right] += 1
        assert max(tile.kept.width, tile.kept.height) <= EXACT.core
    assert (covered == 1).all()


@given(width=sides, height=sides)
def test_a_network_sees_the_full_context_except_at_the_pictures_edge(width: int, height: int) -> None:
    for tile in EXACT.tiles(width, height):
        assert tile.seen.left == max(0, tile.kept.left - EXACT.context)
        assert tile.seen.top == max(0, tile.kept.top - EXACT.context)
        assert tile.seen.right == min(width, tile.kept.right + EXACT.context)
        assert tile.seen.bottom == min(height, tile.kept.bottom + EXACT.context)


@given(width=sides, height=sides)
def test_blended_tiles_only_fade_over_what_is_written_already(width: int, height: int) -> None:
    written = np.zeros((height, width), bool)
    for tile in BLENDED.tiles(width, height):
        box = tile.kept
        window = written[box.top : box.bottom, box.left : box.right]
        assert window[:, : tile.fade_left].all()
        assert window[: tile.fade_top].all()
        window[:] = True
    assert written.all()


def test_the_count_is_the_number_of_tiles() -> None:
    assert EXACT.count(40, 33) == len(list(EXACT.tiles(40, 33))) == 9


def test_a_cross_fade_of_equals_changes_nothing() -> None:
    pixels = np.asarray(noise(20, 12))
    assert (cross_fade(pixels, pixels, fade_left=4, fade_top=4) == pixels).all()


def test_a_cross_fade_rises_without_a_step() -> None:
    old: Pixels = np.zeros((12, 20, 1), np.uint8)
    new: Pixels = np.full((12, 20, 1), 200, np.uint8)
    mixed = cross_fade(old, new, fade_left=8, fade_top=0)[0, :, 0].astype(int)
    steps = np.diff(np.concatenate(([0], mixed)))
    assert steps.max() <= 200 // 8
    assert mixed[8:].tolist() == [200] * 12


@pytest.mark.parametrize("value", range(1, 9))
def test_upright_is_what_pillow_shows(value: int) -> None:
    stored = noise(7, 5)
    exif = stored.getexif()
    exif[ORIENTATION] = value
    shown = np.asarray(ImageOps.exif_transpose(stored))
    orientation = Orientation.of_exif(value)
    assert orientation.upright_size(7, 5) == (shown.shape[1], shown.shape[0])
    assert (orientation.turn(np.asarray(stored)) == shown).all()


@pytest.mark.parametrize("value", range(1, 9))
def test_an_upright_window_is_found_in_the_stored_picture(value: int) -> None:
    stored = np.asarray(noise(9, 6))
    orientation = Orientation.of_exif(value)
    shown = orientation.turn(stored)
    box = Box(left=1, top=2, width=4, height=3)
    inner = orientation.stored_box(box, width=9, height=6)
    window = stored[inner.top : inner.bottom, inner.left : inner.right]
    assert (orientation.turn(window) == shown[box.top : box.bottom, box.left : box.right]).all()


def test_an_orientation_that_isnt_one_counts_as_upright() -> None:
    assert Orientation.of_exif(0) == Orientation.of_exif(77) == Orientation.of_exif(1)
