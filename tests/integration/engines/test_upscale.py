"""The real networks on real photographs of every kind that people send."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from infra.engines.native.networks import NETWORKS, Network, halve
from infra.engines.native.picture import PictureBroken
from infra.engines.native.upscale import Job, Stopped, Upscaler
from tests.integration.engines.conftest import photograph
from tests.support.pictures import ORIENTATION, bomb_png

GPS_IFD = 0x8825


@pytest.fixture(scope="module")
def upscaler() -> Upscaler:
    return Upscaler(threads=2)


@pytest.fixture
def upscale(upscaler: Upscaler, tmp_path: Path) -> Callable[..., Image.Image]:
    """Save a picture as a file, enlarge the file, open the result."""

    def run(
        image: Image.Image, kind: str = "PNG", *, scale: int = 2, mode: str = "fast", **options: object
    ) -> Image.Image:
        source, target = tmp_path / "in", tmp_path / "out.png"
        image.save(source, kind, **options)
        upscaler.run(Job(source, target, tmp_path / "scratch", mode, scale), lambda _: True)
        assert {path.name for path in tmp_path.iterdir()} == {"in", "out.png"}
        with Image.open(target) as result:
            assert result.format == "PNG"
            return result.copy()

    return run


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean over all values, of 255."""
    return float(np.abs(np.asarray(one, int) - np.asarray(other, int)).mean())


def steepness(image: Image.Image) -> float:
    """Mean step between neighbours among the steepest twentieth: how sharp edges are."""
    steps = np.abs(np.diff(np.asarray(image.convert("L"), int), axis=1))
    return float(steps[steps >= np.quantile(steps, 0.95)].mean())


def bicubic(image: Image.Image, scale: int) -> Image.Image:
    """What the result has to look like from afar."""
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("scale", [2, 4])
def test_the_result_is_the_same_picture_larger(
    upscale: Callable[..., Image.Image], astronaut: Image.Image, scale: int
) -> None:
    result = upscale(astronaut, scale=scale)
    assert result.mode == "RGB"
    assert result.size == (96 * scale, 80 * scale)
    assert difference(result, bicubic(astronaut, scale)) < 12


def test_edges_come_out_sharper_than_by_interpolation(
    upscale: Callable[..., Image.Image], astronaut: Image.Image
) -> None:
    assert steepness(upscale(astronaut)) > 1.15 * steepness(bicubic(astronaut, 2))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2, 4])
def test_photo_mode_enlarges_by_both_factors(
    upscale: Callable[..., Image.Image], astronaut: Image.Image, scale: int
) -> None:
    small = astronaut.resize((48, 40))
    result = upscale(small, mode="photo", scale=scale)
    assert result.size == (48 * scale, 40 * scale)
    assert difference(result, bicubic(small, scale)) < 18


@pytest.mark.parametrize("size", [(16, 16), (17, 16), (16, 131), (129, 33)])
def test_odd_sizes_come_out_exactly(upscale: Callable[..., Image.Image], size: tuple[int, int]) -> None:
    picture = Image.effect_noise(size, 80).convert("RGB")
    assert upscale(picture, scale=4).size == (size[0] * 4, size[1] * 4)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_result_is_upright_and_says_nothing_more_of_it(
    upscale: Callable[..., Image.Image], astronaut: Image.Image, kind: str, orientation: int
) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[GPS_IFD] = {1: "N", 2: (52.0, 31.0, 12.0)}
    result = upscale(astronaut, kind, exif=exif, quality=95)
    upright = astronaut.copy()
    upright.getexif()[ORIENTATION] = orientation
    upright = ImageOps.exif_transpose(upright)
    assert result.size == (upright.width * 2, upright.height * 2)
    assert difference(result, bicubic(upright, 2)) < 14
    assert dict(result.getexif()) == {}
    assert result.info == {}


def test_alpha_is_kept_with_its_soft_edges(upscale: Callable[..., Image.Image], astronaut: Image.Image) -> None:
    alpha = Image.radial_gradient("L").resize(astronaut.size)
    picture = astronaut.copy()
    picture.putalpha(alpha)
    result = upscale(picture)
    assert result.mode == "RGBA"
    assert difference(result.getchannel("A"), bicubic(alpha, 2)) < 1
    assert difference(result.convert("RGB"), upscale(astronaut)) < 1


def test_black_under_transparency_doesnt_bleed_into_the_edge(upscale: Callable[..., Image.Image]) -> None:
    pixels = np.zeros((64, 64, 4), np.uint8)
    yy, xx = np.mgrid[0:64, 0:64]
    disc = (xx - 32) ** 2 + (yy - 32) ** 2 < 400
    pixels[disc] = (240, 60, 40, 255)
    result = np.asarray(upscale(Image.fromarray(pixels)))
    visible = result[:, :, 3] > 8
    assert result[visible][:, 0].min() > 225


def test_cmyk_becomes_rgb(upscale: Callable[..., Image.Image], astronaut: Image.Image) -> None:
    result = upscale(astronaut.convert("CMYK"), "JPEG", quality=95)
    assert result.mode == "RGB"
    # A press profile darkens saturated colours, so this is looser than for RGB.
    assert difference(result, bicubic(astronaut, 2)) < 40


def test_sixteen_bits_become_eight(upscale: Callable[..., Image.Image], astronaut: Image.Image) -> None:
    grey = astronaut.convert("L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    assert difference(upscale(deep), upscale(grey)) < 1


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1"])
def test_grey_and_palettes_become_colours(
    upscale: Callable[..., Image.Image], astronaut: Image.Image, mode: str
) -> None:
    picture = astronaut.convert(mode)
    result = upscale(picture)
    assert result.mode == ("RGBA" if mode == "LA" else "RGB")
    assert difference(result.convert("RGB"), upscale(picture.convert("RGB"))) < 1


def test_a_palette_with_a_transparent_colour_keeps_it(
    upscale: Callable[..., Image.Image], astronaut: Image.Image
) -> None:
    picture = astronaut.quantize(16)
    result = upscale(picture, transparency=3)
    assert result.mode == "RGBA"
    assert result.getchannel("A").getextrema() == (0, 255)


def test_the_colour_profile_is_kept(upscale: Callable[..., Image.Image], astronaut: Image.Image) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    result = upscale(astronaut, "JPEG", icc_profile=profile, quality=95)
    assert result.info == {"icc_profile": profile}


def test_the_same_file_gives_the_same_bytes(
    upscale: Callable[..., Image.Image], tmp_path: Path, large_astronaut: Image.Image
) -> None:
    picture = large_astronaut.crop((0, 0, 150, 60))
    upscale(picture)
    first = (tmp_path / "out.png").read_bytes()
    upscale(picture)
    assert (tmp_path / "out.png").read_bytes() == first


def test_a_truncated_file_is_refused(upscaler: Upscaler, tmp_path: Path, astronaut: Image.Image) -> None:
    source = tmp_path / "in"
    astronaut.save(source, "JPEG", quality=95)
    source.write_bytes(source.read_bytes()[:2000])
    with pytest.raises(PictureBroken):
        upscaler.run(Job(source, tmp_path / "out.png", tmp_path / "s", "fast", 2), lambda _: True)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_run_stops_at_the_next_tile_and_leaves_nothing(
    upscaler: Upscaler, tmp_path: Path, large_astronaut: Image.Image
) -> None:
    source = tmp_path / "in"
    large_astronaut.save(source, "PNG")
    heard: list[float] = []

    def progress(fraction: float) -> bool:
        heard.append(fraction)
        return fraction < 0.3

    with pytest.raises(Stopped):
        upscaler.run(Job(source, tmp_path / "out.png", tmp_path / "s", "fast", 2), progress)
    assert 0.3 <= heard[-1] < 0.6
    assert heard == sorted(heard)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_progress_rises_and_never_says_one(
    upscaler: Upscaler, tmp_path: Path, large_astronaut: Image.Image
) -> None:
    source = tmp_path / "in"
    large_astronaut.save(source, "PNG")
    heard: list[float] = []

    def progress(fraction: float) -> bool:
        heard.append(fraction)
        return True

    upscaler.run(Job(source, tmp_path / "out.png", tmp_path / "s", "fast", 2), progress)
    tiles = NETWORKS["fast", 2].tiling.count(200, 140)
    assert len(heard) >= tiles > 2
    assert heard == sorted(heard)
    assert heard[-1] < 1


def test_a_bomb_is_bounded_by_the_disk_and_not_by_memory(upscaler: Upscaler, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(bomb_png(4000))
    decoded: list[float] = []

    def progress(fraction: float) -> bool:
        decoded.append(fraction)
        return fraction < 0.02

    with pytest.raises(Stopped):
        upscaler.run(Job(source, tmp_path / "out.png", tmp_path / "s", "fast", 2), progress)
    assert len(decoded) > 20


@pytest.mark.parametrize("scale", [2, 4])
def test_fast_tiles_are_the_whole_picture(
    upscale: Callable[..., Image.Image], large_astronaut: Image.Image, scale: int
) -> None:
    picture = np.asarray(large_astronaut)[:100, :200]
    network = Network(NETWORKS["fast", scale], threads=2)
    whole = network.enlarge(picture).astype(int)
    tiled = np.asarray(upscale(Image.fromarray(picture), scale=scale), int)
    # Off by one in the last bit where sums were rounded in another order; nothing else.
    assert np.abs(tiled - whole).max() <= 1
    assert (tiled != whole).mean() < 0.001
    network.close()


@pytest.mark.slow
def test_photo_tiles_leave_no_seam(upscale: Callable[..., Image.Image]) -> None:
    """What differs from the whole picture's result may not jump at a tile's border more than it does around it."""
    picture = np.ascontiguousarray(photograph()[60:100, 200:280])
    network = Network(NETWORKS["photo", 2], threads=2)
    whole = halve(network.enlarge(picture)).astype(int)
    network.close()
    error = np.asarray(upscale(Image.fromarray(picture), mode="photo"), int) - whole
    jumps = np.abs(np.diff(error, axis=1)).mean(axis=(0, 2))
    border = 40 * 2 - 1  # 80 columns are cut into two tiles of 40
    around = np.delete(jumps[border - 29 : border + 31], 29)
    # Measured: 1.76 against 1.61; tiles that abut give 2.4 to 9.4.
    assert jumps[border] < 1.25 * np.quantile(around, 0.9)
    assert np.abs(error).mean() < 1
