"""From the request to the engine's first step, beside a bare workflow with one step in another process."""

import asyncio
import json
from pathlib import Path

from workers.bench.bare_calls import BareCalls, BareStart
from workers.bench.pictures import picture
from workers.bench.statistics import percentile, summary
from workers.bench.visitor import Visitor
from workers.cli.report import Figure, at_most

SIDE = 96
"""Pixels: large enough for its run to be seen, small enough to take some tenths of a second."""
WARM_UPS = 5
SETTLE_S = 60
LOOK_EACH_S = 0.01
RATIO_MAX = 1.5
ACCEPTED_TO_START_S_MAX = 0.1


async def first_step(visitor: Visitor, bare: BareCalls, *, engines: Path, samples: int) -> list[Figure]:
    """Measure both, in turns.

    Args:
        visitor: Creates.
        bare: Starts bare workflows.
        engines: Folder of the engines on this host; the engine's own record of a run says when it took it.
        samples: How often.
    """
    image = picture(SIDE, SIDE)
    ours: list[BareStart] = []
    theirs: list[BareStart] = []
    for turn in range(samples + WARM_UPS):
        # Who goes first changes with each turn, so that neither always follows the other's work.
        if turn % 2:
            bares = await bare.start()
            mine = await _start(visitor, image, engines)
        else:
            mine = await _start(visitor, image, engines)
            bares = await bare.start()
        if turn >= WARM_UPS:
            ours.append(mine)
            theirs.append(bares)
    steps, bare_steps = [start.step_s for start in ours], [start.step_s for start in theirs]
    waits = [start.step_s - start.answer_s for start in ours]
    return [
        at_most(
            "start_ratio_p50",
            percentile(steps, 0.5) / percentile(bare_steps, 0.5),
            RATIO_MAX,
            "1",
            {"request_to_first_step": summary(steps), "bare": summary(bare_steps)},
        ),
        at_most(
            "accepted_to_start_s_p50",
            percentile(waits, 0.5),
            ACCEPTED_TO_START_S_MAX,
            "s",
            {"answer_to_first_step": summary(waits)},
        ),
    ]


async def _start(visitor: Visitor, image: bytes, engines: Path) -> BareStart:
    before = _runs(engines)
    seeing = asyncio.create_task(_seen(engines, before))
    try:
        created = await visitor.create(image)
        async with asyncio.timeout(SETTLE_S):
            accepted_at = await seeing
    finally:
        seeing.cancel()
    await visitor.complete(created.task_id, within_s=SETTLE_S)
    return BareStart(created.seconds, accepted_at - created.asked_at)


def _runs(engines: Path) -> set[Path]:
    return set(engines.glob("*/runs/*/run.json"))


async def _seen(engines: Path, before: set[Path]) -> float:
    """When an engine took the next run, in unix seconds by its own record; the record goes soon after the run."""
    while True:
        for path in _runs(engines) - before:
            try:
                return float(json.loads(path.read_bytes())["accepted_at"])
            except (FileNotFoundError, ValueError):
                continue
        await asyncio.sleep(LOOK_EACH_S)
