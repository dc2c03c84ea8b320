"""Real photographs, small."""

import os

import numpy as np
import numpy.typing as npt
import pytest
import skimage.data
from PIL import Image

# As the engine's process is started: read when ncnn is first imported, which is after this file.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def photograph() -> npt.NDArray[np.uint8]:
    """Eileen Collins, 512 x 512, public domain."""
    pixels: npt.NDArray[np.uint8] = skimage.data.astronaut()  # type: ignore[no-untyped-call]  # ships no types
    return pixels


@pytest.fixture(scope="session")
def astronaut() -> Image.Image:
    """A photograph, 96 x 80."""
    return Image.fromarray(photograph()[0:320, 60:444]).resize((96, 80), Image.Resampling.LANCZOS)


@pytest.fixture(scope="session")
def large_astronaut() -> Image.Image:
    """A part of it, 200 x 140: several tiles each way, with detail of its own at that size."""
    return Image.fromarray(np.ascontiguousarray(photograph()[0:140, 160:360]))
