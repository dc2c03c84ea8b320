"""From the request to the engine's first step, beside a bare workflow with one step in another process."""

import asyncio
import itertools
import json
from pathlib import Path

from workers.bench.admission import OURS, Bare
from workers.bench.bare import Setting
from workers.bench.bare_calls import BareStart
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


async def first_step(visitor: Visitor, bare: Bare, *, engines: Path, samples: int) -> list[Figure]:
    """Measure all sides, in turns.

    Args:
        visitor: Creates.
        bare: Starts bare workflows.
        engines: Folder of the engines on this host; the engine's own record of a run says when it took it.
        samples: How often.
    """
    image = picture(SIDE, SIDE)
    found: dict[str, list[BareStart]] = {name: [] for name in (OURS, *bare)}
    orders = itertools.cycle(itertools.permutations(found))
    for turn in range(samples + WARM_UPS):
        for name in next(orders):
            start = await (_start(visitor, image, engines) if name == OURS else bare[Setting(name)].start())
            if turn >= WARM_UPS:
                found[name].append(start)
    steps = {name: [start.step_s for start in starts] for name, starts in found.items()}
    waits = [start.step_s - start.answer_s for start in found[OURS]]
    ratios = {setting: percentile(steps[OURS], 0.5) / percentile(steps[setting], 0.5) for setting in bare}
    raw = {name: summary(seconds) for name, seconds in steps.items()}
    return [
        at_most("start_ratio_p50", ratios[Setting.STOCK], RATIO_MAX, "1", raw),
        at_most(
            "accepted_to_start_s_p50",
            percentile(waits, 0.5),
            ACCEPTED_TO_START_S_MAX,
            "s",
            {"answer_to_first_step": summary(waits)},
        ),
        Figure("start_alike_ratio_p50", round(ratios[Setting.ALIKE], 4), "1", "", ok=True),
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
