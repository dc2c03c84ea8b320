"""A creation's admission beside a bare update-with-start, alone and sixteen at once."""

import asyncio
from collections.abc import Sequence
from typing import Any

from workers.bench.bare_calls import BareCalls
from workers.bench.pictures import picture
from workers.bench.statistics import percentile, summary
from workers.bench.visitor import Created, Visitor
from workers.cli.report import Figure, at_most

SIDE = 32
"""Pixels: the picture's own work is to be small beside the admission's."""
WARM_UPS = 5
AT_ONCE = 16
BURSTS = 10
SETTLE_S = 60
RATIO_MAX, RATIO_MAX_AT_ONCE = 1.5, 1.8


async def admission(visitor: Visitor, bare: BareCalls, *, samples: int) -> list[Figure]:
    """Measure both, in turns. The picture is sent again each time: the store has it from the first time on."""
    image = picture(SIDE, SIDE)
    for _ in range(WARM_UPS):
        await _alone(visitor, image)
        await bare.answer()
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(samples):
        # Who goes first changes with each turn, so that neither always follows the other's work.
        if turn % 2:
            theirs.append(await bare.answer())
            ours.append(await _alone(visitor, image))
        else:
            ours.append(await _alone(visitor, image))
            theirs.append(await bare.answer())
    burst_ours, burst_theirs = await _bursts(visitor, bare, image)
    return [
        at_most("admission_ratio_p50", _ratio(ours, theirs), RATIO_MAX, "1", _raw(ours, theirs)),
        at_most(
            "admission_ratio_c16",
            _ratio(burst_ours, burst_theirs),
            RATIO_MAX_AT_ONCE,
            "1",
            _raw(burst_ours, burst_theirs) | {"at_once": AT_ONCE, "bursts": BURSTS},
        ),
    ]


async def _alone(visitor: Visitor, image: bytes) -> float:
    """Seconds of one creation; returns when its work is done, so that nothing runs beside the next."""
    created = await visitor.create(image)
    await visitor.complete(created.task_id, within_s=SETTLE_S)
    return created.seconds


async def _bursts(visitor: Visitor, bare: BareCalls, image: bytes) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(BURSTS):
        theirs += await asyncio.gather(*(bare.answer() for _ in range(AT_ONCE)))
        created: list[Created] = await asyncio.gather(*(visitor.create(image) for _ in range(AT_ONCE)))
        ours += [one.seconds for one in created]
        for one in created:
            await visitor.complete(one.task_id, within_s=SETTLE_S)
    return ours, theirs


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return percentile(ours, 0.5) / percentile(theirs, 0.5)


def _raw(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    return {"creation": summary(ours), "bare": summary(theirs)}
