"""Pictures are judged by their bytes: what came in, and what an engine made."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infra.media.inspect import Measured, judge
from infra.media.probe import decode_fully, probe
from tests.support import pictures
from workflows.contracts.failures import Code, Failure
from workflows.contracts.media import MediaContract
from workflows.domain.plan import ImageFacts


def contract(**changes: object) -> MediaContract:
    base = MediaContract(role="image", mime="image/png", width=64, height=48, has_alpha=False, bytes_max=1_000_000)
    return base.model_copy(update=changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def solid(value: int, mode: str = "RGB") -> bytes:
    return pictures.encoded(Image.new(mode, (64, 48), value if mode == "L" else (value,) * len(mode)))


def test_a_good_output_is_measured(path: Path) -> None:
    path.write_bytes(pictures.png())
    assert judge(path, contract()) == Measured("image/png", 64, 48)


@pytest.mark.parametrize(
    ("content", "changes", "says"),
    [
        (b"", {}, "has 0 bytes"),
        (pictures.png(), {"bytes_max": 100}, "allowed are 1 to 100"),
        (pictures.png()[:-20], {}, "can't be decoded"),
        (pictures.png()[: len(pictures.png()) // 2], {}, "can't be decoded"),
        (pictures.png(64, 49), {}, "is 64 x 49, not 64 x 48"),
        (pictures.encoded(pictures.noise(), "JPEG"), {}, "is image/jpeg"),
        (b"<html>", {}, "is of no known type"),
        (pictures.png(), {"has_alpha": True}, "lacks its alpha channel"),
        (pictures.encoded(pictures.noise().convert("RGBA")), {}, "has an alpha channel"),
        (pictures.animated("PNG"), {}, "has 2 frames"),
        (pictures.bomb_png(9_000), {}, "is 9000 x 9000"),
    ],
)
def test_an_output_that_breaks_its_contract_is_no_result(
    path: Path, content: bytes, changes: dict[str, object], says: str
) -> None:
    path.write_bytes(content)
    failure = judge(path, contract(**changes))

    assert isinstance(failure, Failure)
    assert failure.code is Code.MEDIA_VALIDATION_FAILED
    assert says in failure.message
    assert str(path) not in failure.message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (solid(0), "black"),
        (solid(2), "black"),
        (solid(255), "one colour"),
        (solid(0, "L"), "black"),
        (solid(90), "one colour"),
    ],
)
def test_a_collapse_to_one_colour_has_its_own_code(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    failure = judge(path, contract())

    assert isinstance(failure, Failure)
    assert says in failure.message
    assert failure.code is Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE
    assert isinstance(judge(path, contract(may_be_blank=True)), Measured), "a blank input gives a blank output"


def test_a_transparent_black_field_is_a_collapse_too(path: Path) -> None:
    path.write_bytes(solid(0, "RGBA"))
    failure = judge(path, contract(has_alpha=True))
    assert isinstance(failure, Failure)
    assert failure.code is Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE


def test_a_dark_picture_is_no_collapse(path: Path) -> None:
    night = np.zeros((48, 64, 3), dtype=np.uint8)
    night[20, 30] = 40
    path.write_bytes(pictures.encoded(Image.fromarray(night)))
    assert isinstance(judge(path, contract()), Measured)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_the_upright_one(path: Path, orientation: int) -> None:
    path.write_bytes(pictures.turned_jpeg(orientation))
    found = probe(path, field="image", label="image/jpeg", filename=None)

    assert isinstance(found, ImageFacts)
    assert (found.width, found.height) == ((64, 48) if orientation < 5 else (48, 64))


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (pictures.truncated_jpeg(), "image/jpeg"),
        (pictures.encoded(pictures.noise(400, 300), "JPEG", progressive=True)[:-200], "image/jpeg"),
        (pictures.encoded(pictures.noise(400, 300), "WEBP")[:-200], "image/webp"),
        (pictures.png(400, 300)[:-200], "image/png"),
        (pictures.png(400, 300).replace(b"IDAT", b"IDAT\0\0", 1), "image/png"),
    ],
)
def test_nothing_cut_off_or_corrupt_passes(path: Path, content: bytes, label: str) -> None:
    path.write_bytes(content)
    found = probe(path, field="image", label=label, filename=None)
    if isinstance(found, ImageFacts):
        found = decode_fully(path, found, field="image")

    assert isinstance(found, Failure)
    assert (found.code, found.param) == (Code.INVALID_MEDIA, "image")


def test_a_blank_input_is_noticed(path: Path) -> None:
    for content, blank in ((solid(7), True), (pictures.png(), False)):
        path.write_bytes(content)
        found = probe(path, field="image", label="image/png", filename=None)
        assert isinstance(found, ImageFacts)
        decoded = decode_fully(path, found, field="image")
        assert isinstance(decoded, ImageFacts)
        assert decoded.blank is blank
