"""A creation's admission beside a bare update-with-start, alone and sixteen at once."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from workers.bench.bare import Setting
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


Bare = Mapping[Setting, BareCalls]
OURS = "ours"
"""The name of the platform's side, beside the settings of the bare one."""


async def admission(visitor: Visitor, bare: Bare, *, samples: int) -> list[Figure]:
    """Measure all sides, in turns. The same picture each time: the store has it from the first on."""
    image = picture(SIDE, SIDE)
    sides: dict[str, Callable[[], Awaitable[Sequence[float]]]] = {OURS: lambda: _alone(visitor, image)}
    sides |= {setting: _once(calls) for setting, calls in bare.items()}
    bursts: dict[str, Callable[[], Awaitable[Sequence[float]]]] = {OURS: lambda: _burst(visitor, image)}
    bursts |= {setting: _at_once(calls) for setting, calls in bare.items()}
    alone = await _in_turns(sides, samples + WARM_UPS, forget=WARM_UPS)
    at_once = await _in_turns(bursts, BURSTS, forget=0)
    burst_raw = _raw(at_once) | {"at_once": AT_ONCE, "bursts": BURSTS}
    return [
        at_most("admission_ratio_p50", _ratio(alone, Setting.STOCK), RATIO_MAX, "1", _raw(alone)),
        at_most("admission_ratio_c16", _ratio(at_once, Setting.STOCK), RATIO_MAX_AT_ONCE, "1", burst_raw),
        _told("admission_alike_ratio_p50", _ratio(alone, Setting.ALIKE)),
        _told("admission_alike_ratio_c16", _ratio(at_once, Setting.ALIKE)),
    ]


async def _in_turns(
    sides: Mapping[str, Callable[[], Awaitable[Sequence[float]]]], turns: int, *, forget: int
) -> dict[str, list[float]]:
    """Seconds of each side. Who goes first changes with each turn, so that none always follows another's work."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    orders = itertools.cycle(itertools.permutations(sides))
    for turn in range(turns):
        for name in next(orders):
            seconds = await sides[name]()
            if turn >= forget:
                found[name] += seconds
    return found


async def _alone(visitor: Visitor, image: bytes) -> Sequence[float]:
    """Seconds of one creation; returns when its work is done, so that nothing runs beside the next."""
    created = await visitor.create(image)
    await visitor.complete(created.task_id, within_s=SETTLE_S)
    return [created.seconds]


async def _burst(visitor: Visitor, image: bytes) -> Sequence[float]:
    """Seconds of each of many creations at once; returns when the work of all is done."""
    created: list[Created] = await asyncio.gather(*(visitor.create(image) for _ in range(AT_ONCE)))
    for one in created:
        await visitor.complete(one.task_id, within_s=SETTLE_S)
    return [one.seconds for one in created]


def _once(calls: BareCalls) -> Callable[[], Awaitable[Sequence[float]]]:
    async def one() -> Sequence[float]:
        return [await calls.answer()]

    return one


def _at_once(calls: BareCalls) -> Callable[[], Awaitable[Sequence[float]]]:
    async def many() -> Sequence[float]:
        return await asyncio.gather(*(calls.answer() for _ in range(AT_ONCE)))

    return many


def _ratio(found: Mapping[str, Sequence[float]], setting: Setting) -> float:
    return percentile(found[OURS], 0.5) / percentile(found[setting], 0.5)


def _told(name: str, value: float) -> Figure:
    return Figure(name, round(value, 4), "1", "", ok=True)


def _raw(found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    return {name: summary(seconds) for name, seconds in found.items()}
