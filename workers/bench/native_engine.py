"""The network inside the platform beside the same network in a bare loop."""

import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from infra.db import Database, load
from workers.bench.bare_upscale import Order
from workers.bench.pictures import picture
from workers.bench.statistics import median_interval
from workers.bench.visitor import Visitor
from workers.cli.report import Figure, at_least

_QUERIES = load(__package__)

MODE, SCALE = "fast", 2
PAIRS_MIN = 10
RATIO_MIN = 0.93
PROBE_SIDE = 512
"""Pixels of the picture by which the time of a larger one is told."""
ROOM = 1.15
"""The picture is chosen for so much more than the seconds asked for: the machine may be faster later."""
SIDE_MAX = 4096
RUN_S_MAX = 900


class BareLoopEnded(Exception):
    """The process of the bare loop ended early."""


class BareLoop:
    """The process that runs the bare loop."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        """Use a running process."""
        self._process = process
        self._folder = folder

    async def seconds(self, image: bytes) -> float:
        """Enlarge one picture; the seconds that it took, decode and encode included."""
        source = self._folder / "source.png"
        await asyncio.to_thread(source.write_bytes, image)
        order = Order(str(source), str(self._folder / "target.png"), MODE, SCALE)
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BareLoopEnded("it has no pipes")
        stdin.write(order.line())
        line = await stdout.readline()
        if not line:
            raise BareLoopEnded("it closed its output")
        return float(json.loads(line)["seconds"])


@dataclass(frozen=True, slots=True)
class Pair:
    """One platform run and one bare run of the same picture, in seconds.

    Attributes:
        engine_s: From the order to the end of the run on its card: fetch, journal, engine, upload.
        whole_s: From the request to the settled end.
        bare_s: The bare loop.
    """

    engine_s: float
    whole_s: float
    bare_s: float


async def native_engine(
    visitor: Visitor,
    database: Database,
    *,
    threads: int,
    pairs: int,
    seconds: float,
    tell: Callable[[str], None],
) -> list[Figure]:
    """Measure `pairs` pairs of at least `seconds` each, in turns."""
    async with _bare_loop(threads or len(os.sched_getaffinity(0))) as loop:
        side = await _side(loop, seconds)
        found: list[Pair] = []
        for number in range(pairs):
            # A new picture each time: the same would be another operation, but never a cached result.
            image = await asyncio.to_thread(picture, side, side, seed=number + 1)
            first_bare = await loop.seconds(image) if number % 2 else None
            engine_s, whole_s = await _platform_run(visitor, database, image)
            found.append(Pair(engine_s, whole_s, first_bare or await loop.seconds(image)))
            tell(f"pair {number + 1} of {pairs}: platform {engine_s:.1f} s, bare {found[-1].bare_s:.1f} s")
    return [_figure(found, side=side, seconds=seconds)]


def _figure(pairs: list[Pair], *, side: int, seconds: float) -> Figure:
    ratios = [pair.bare_s / pair.engine_s for pair in pairs]
    low, high = median_interval(ratios)
    raw: dict[str, Any] = {
        "pairs": [
            {
                "platform_run_s": round(p.engine_s, 3),
                "request_to_end_s": round(p.whole_s, 3),
                "bare_s": round(p.bare_s, 3),
            }
            for p in pairs
        ],
        "ratios": [round(ratio, 4) for ratio in ratios],
        "interval_95": [round(low, 4), round(high, 4)],
        "whole_ratio_median": round(statistics.median(pair.bare_s / pair.whole_s for pair in pairs), 4),
        "picture": {"side": side, "mode": MODE, "scale": SCALE},
    }
    figure = at_least("native_engine_ratio", statistics.median(ratios), RATIO_MIN, "1", raw)
    long_enough = all(min(pair.bare_s, pair.engine_s) >= seconds for pair in pairs)
    goal = f"{figure.goal}, {PAIRS_MIN} pairs of {seconds:g} s"
    return Figure(
        figure.name, figure.value, figure.unit, goal, figure.ok and long_enough and len(pairs) >= PAIRS_MIN, raw
    )


async def _side(loop: BareLoop, seconds: float) -> int:
    """The side of a square picture that takes at least `seconds`."""
    image = picture(PROBE_SIDE, PROBE_SIDE)
    await loop.seconds(image)  # loads the network
    probe_s = await loop.seconds(image)
    side = int(PROBE_SIDE * (seconds * ROOM / probe_s) ** 0.5)
    return min(SIDE_MAX, max(PROBE_SIDE // 4, side))


async def _platform_run(visitor: Visitor, database: Database, image: bytes) -> tuple[float, float]:
    created = await visitor.create(image, mode=MODE, scale=str(SCALE))
    await visitor.complete(created.task_id, within_s=RUN_S_MAX)
    async with database.read() as reader:
        row = await reader.one(_QUERIES["run_times"], task_id=created.task_id)
    if row is None:
        raise LookupError(f"{created.task_id} left no times")
    began, ended, finished = (row[name] for name in ("began_at", "ended_at", "finished_at"))
    return _between(began, ended), finished.timestamp() - created.asked_at


def _between(began: datetime, ended: datetime) -> float:
    return (ended - began).total_seconds()


@asynccontextmanager
async def _bare_loop(threads: int) -> AsyncIterator[BareLoop]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.bench.bare_upscale", str(threads)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield BareLoop(process, Path(folder))
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
