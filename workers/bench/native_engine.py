"""The network inside the platform beside the same network in a bare loop.

The platform's run counts from the moment its order is opened at the API to the moment the course goes on to judge
the result: fetch of a large input, journal, decoding, tiles, encoding, flush, digest, upload into the store, and
the host's answer through Temporal. The bare loop counts decoding, tiles and encoding; it writes its file and
flushes nothing. Both use `Network` with the same tiles, threads and library settings; who goes first alternates.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from infra.db import Database, load
from infra.engines.native.process import RUNTIME
from workers.bench.bare_upscale import Order
from workers.bench.pictures import picture
from workers.bench.statistics import median_interval
from workers.bench.visitor import Visitor
from workers.cli.report import Figure

_QUERIES = load(__package__)

MODE, SCALE = "fast", 2
PAIRS_MIN = 10
ASK_EACH_S = 1.0
"""As a patient client does. Asked twenty times a second, the answers took a fifth of a core from the engine."""
RATIO_MIN = 0.93
PROBE_SIDE = 512
"""Pixels of the picture by which the time of a larger one is told."""
ROOM = 1.15
"""The picture is chosen for so much more than the seconds asked for: the machine may be faster later."""
SIDE_MAX = 4096
SHORT_MAX = 10
"""Pairs that may turn out too short before the bench gives up."""
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

    @property
    def shorter_s(self) -> float:
        """The shorter of the two runs."""
        return min(self.engine_s, self.bare_s)

    def told(self) -> dict[str, float]:
        """As it stands in the report."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


async def native_engine(
    visitor: Visitor,
    database: Database,
    *,
    threads: int,
    pairs: int,
    seconds: float,
    tell: Callable[[str], None],
) -> list[Figure]:
    """Measure `pairs` pairs of at least `seconds` each, in turns. Shorter ones are left out, and told."""
    async with _bare_loop(threads or len(os.sched_getaffinity(0))) as loop:
        side = await _side(loop, seconds)
        found: list[Pair] = []
        short: list[Pair] = []
        while len(found) < pairs and len(short) < SHORT_MAX:
            pair = await _pair(loop, visitor, database, side, number=len(found) + len(short))
            if pair.shorter_s < seconds:
                # The machine was busy when the size was chosen.
                short.append(pair)
                side = min(SIDE_MAX, int(side * (seconds * ROOM / pair.shorter_s) ** 0.5) + 1)
                tell(f"a pair of {pair.shorter_s:.1f} s is too short; {side} pixels from here on")
                continue
            found.append(pair)
            tell(f"pair {len(found)} of {pairs}: platform {pair.engine_s:.1f} s, bare {pair.bare_s:.1f} s")
    return [_figure(found, short, side=side, seconds=seconds)]


async def _pair(loop: BareLoop, visitor: Visitor, database: Database, side: int, *, number: int) -> Pair:
    """One of each; who goes first changes with each pair."""
    image = await asyncio.to_thread(picture, side, side, seed=number + 1)
    first_bare = await loop.seconds(image) if number % 2 else None
    engine_s, whole_s = await _platform_run(visitor, database, image)
    return Pair(engine_s, whole_s, first_bare or await loop.seconds(image))


def _figure(pairs: list[Pair], short: list[Pair], *, side: int, seconds: float) -> Figure:
    goal = f">= {RATIO_MIN:g}, {PAIRS_MIN} pairs of {seconds:g} s"
    raw: dict[str, Any] = {
        "pairs": [pair.told() for pair in pairs],
        "too_short": [pair.told() for pair in short],
        "picture": {"side": side, "mode": MODE, "scale": SCALE},
    }
    if not pairs:
        return Figure("native_engine_ratio", None, "1", goal, ok=False, raw=raw)
    ratios = [pair.bare_s / pair.engine_s for pair in pairs]
    median = statistics.median(ratios)
    raw |= {
        "ratios": [round(ratio, 4) for ratio in ratios],
        "interval_95": [round(bound, 4) for bound in median_interval(ratios)],
        "whole_ratio_median": round(statistics.median(pair.bare_s / pair.whole_s for pair in pairs), 4),
    }
    ok = median >= RATIO_MIN and len(pairs) >= PAIRS_MIN
    return Figure("native_engine_ratio", round(median, 4), "1", goal, ok, raw)


async def _side(loop: BareLoop, seconds: float) -> int:
    """The side of a square picture that takes at least `seconds`."""
    image = picture(PROBE_SIDE, PROBE_SIDE)
    await loop.seconds(image)  # loads the network
    probe_s = await loop.seconds(image)
    side = int(PROBE_SIDE * (seconds * ROOM / probe_s) ** 0.5)
    return min(SIDE_MAX, max(PROBE_SIDE // 4, side))


async def _platform_run(visitor: Visitor, database: Database, image: bytes) -> tuple[float, float]:
    created = await visitor.create(image, mode=MODE, scale=str(SCALE))
    await visitor.complete(created.task_id, within_s=RUN_S_MAX, each_s=ASK_EACH_S)
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
    # What the engine tells its libraries, the bare loop tells them too: two policies of waiting would be compared.
    told = [f"{name}={value}" for name, value in RUNTIME.items()]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        process = await asyncio.create_subprocess_exec(
            *("env", *told, sys.executable, "-m", "workers.bench.bare_upscale", str(threads)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield BareLoop(process, Path(folder))
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
