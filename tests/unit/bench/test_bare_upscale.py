"""The bare loop of the bench makes the very picture that the engine makes, or it would compare two things."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infra.engines.native.networks import NETWORKS, Network
from infra.engines.native.upscale import Job, Upscaler
from workers.bench.bare_upscale import Order, upscale
from workers.bench.pictures import picture


@pytest.mark.parametrize("side", [40, 200])
def test_the_bare_loop_and_the_engine_agree_pixel_by_pixel(tmp_path: Path, side: int) -> None:
    source = tmp_path / "source.png"
    source.write_bytes(picture(side, side + 7))
    order = Order(str(source), str(tmp_path / "bare.png"), "fast", 2)
    upscale(order, Network(NETWORKS["fast", 2], threads=2))
    target = tmp_path / "engine.png"
    job = Job(source=source, target=target, scratch=tmp_path / "scratch", mode="fast", scale=2)
    Upscaler(threads=2).run(job, lambda _: True)
    bare, engine = np.asarray(Image.open(order.target)), np.asarray(Image.open(target))
    assert bare.shape == engine.shape == ((side + 7) * 2, side * 2, 3)
    assert np.array_equal(bare, engine)
