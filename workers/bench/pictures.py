"""Pictures to measure with: made by arithmetic, so that every run on every machine has the same ones."""

import io

import numpy as np
from PIL import Image


def picture(width: int, height: int, *, seed: int = 0) -> bytes:
    """A PNG of smooth waves with a little grain: it compresses about as a photograph does."""
    chance = np.random.default_rng(seed)
    rows = np.linspace(0, 9 * np.pi, height, dtype=np.float32)[:, None]
    columns = np.linspace(0, 7 * np.pi, width, dtype=np.float32)[None, :]
    bands = [np.sin(rows + turn) * np.cos(columns * (1 + turn / 3)) for turn in (0.0, 1.0, 2.0)]
    grain = chance.normal(0, 6, (height, width, 3))
    pixels = np.clip(np.stack(bands, axis=2) * 100 + 128 + grain, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=3)
    return file.getvalue()
