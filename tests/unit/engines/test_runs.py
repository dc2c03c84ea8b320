"""A native engine's runs, with the network replaced by a script."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infra.engines.native.networks import NETWORKS, Network
from infra.engines.native.runs import Runs
from infra.engines.native.upscale import Job, Upscaler
from infra.engines.states import RunState
from tests.support.eventually import eventually

ORDER = {"capability": "image_upscale", "mode": "fast", "parameters": {"scale": 2}, "inputs": ["/nowhere"]}
TURNS = 20


async def test_progress_is_seen_by_who_looks_and_wakes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, may_end = threading.Event(), threading.Event()

    def work(upscaler: Upscaler, job: Job, progress: Callable[[float], bool]) -> None:
        may_go_on.wait(10)
        for percent in range(50):
            progress(percent / 100)
        may_end.wait(10)
        job.target.write_bytes(b"made")

    monkeypatch.setattr(Upscaler, "run", work)
    runs = Runs(tmp_path, threads=1)
    runs.submit("run", ORDER)
    await eventually(lambda: runs.look("run")["state"] is RunState.RUNNING, what="the start")
    following = asyncio.create_task(runs.follow("run", state=RunState.RUNNING, wait_s=60))
    await asyncio.sleep(0)
    may_go_on.set()
    await eventually(lambda: runs.look("run")["fraction"] == 0.49, what="progress")
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert not following.done()
    may_end.set()
    assert (await following)["state"] is RunState.FINISHED
    await runs.close()


def test_memory_is_kept_from_tile_to_tile_and_given_back_for_a_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[int] = []
    give_back = Network.rest

    def rest(network: Network) -> None:
        rests.append(1)
        give_back(network)

    monkeypatch.setattr(Network, "rest", rest)
    network = Network(NETWORKS["fast", 2], threads=1)
    counts = []
    for side in (16, 16, 12, 20, 20):
        network.enlarge(np.zeros((side, side, 3), np.uint8))
        counts.append(len(rests))
    assert counts == [1, 1, 1, 2, 2]
    network.rest()
    network.enlarge(np.zeros((12, 12, 3), np.uint8))
    assert len(rests) == 4
    network.close()
