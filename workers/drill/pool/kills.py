"""Kills of hosts at random, each started again after a random pause."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from workers.drill.pool.hosts import PoolHost
from workers.drill.pool.plan import PoolPlan
from workers.drill.pool.watch import Watch

SHORT_S = (0.1, 2.0)
"""Most come back before anybody missed them."""
LONG_S = (5.0, 9.0)
"""The others only after their steps and reports are overdue: four missed beats, or a report of 5 s ago."""
LONG_SHARE = 0.25
AIMED_SHARE = 0.6
"""Kills that take a host whose engine is at work, where there is one. The others hit anybody, also an agent that
is about to start: that takes 2.5 s of a core, so that few cores would see little else."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill.

    Attributes:
        at: Unix seconds.
        host: Whose agent.
        engine: The card whose engine was killed too; empty without one.
        away_s: How long nothing was started in its place.
        at_work: Whether an engine of the host was at work.
    """

    at: float
    host: str
    engine: str
    away_s: float
    at_work: bool

    def document(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


class Killer:
    """Kills hosts one after the other, also while others are away.

    Attributes:
        kills: What was done so far.
    """

    def __init__(
        self, hosts: Sequence[PoolHost], watch: Watch, plan: PoolPlan, tell: Callable[[str], None]
    ) -> None:
        """Kill nothing yet."""
        self._hosts = hosts
        self._watch = watch
        self._plan = plan
        self._tell = tell
        self._chance = Random(plan.seed)  # noqa: S311 - a drill that can be repeated, no secret
        self.kills: list[Kill] = []

    async def run(self) -> None:
        """Kill for the plan's seconds; every host is started again when this returns."""
        until = time.monotonic() + self._plan.seconds
        async with asyncio.TaskGroup() as restarts:
            while time.monotonic() + (gap_s := self._chance.uniform(*self._plan.gap_s)) < until:
                await asyncio.sleep(gap_s)
                host = self._victim()
                if host is not None:
                    kill = await self._kill(host)
                    restarts.create_task(_start_again(host, kill.away_s))

    def _victim(self) -> PoolHost | None:
        is_aimed = self._chance.random() < AIMED_SHARE
        living = [host for host in self._hosts if host.lives]
        busy = [host for host in living if self._watch.works(host.home)]
        pool = busy if is_aimed and busy else living
        return self._chance.choice(pool) if pool else None

    async def _kill(self, host: PoolHost) -> Kill:
        chance = self._chance
        away_s = chance.uniform(*(LONG_S if chance.random() < LONG_SHARE else SHORT_S))
        takes_engine, which, engine_first = (
            chance.random() < self._plan.engine_share,
            chance.random(),
            chance.random(),
        )
        folders = host.engine_folders()
        folder = folders[int(which * len(folders))] if takes_engine and folders else None
        at, at_work, pid = time.time(), self._watch.works(host.home), host.pid
        engine = ""
        if folder is not None and engine_first < 1 / 2:
            engine = folder.name if host.kill_engine(folder) else ""
        await host.kill()
        if folder is not None and engine_first >= 1 / 2:
            engine = folder.name if host.kill_engine(folder) else ""
        kill = Kill(at, host.name, engine, round(away_s, 2), at_work)
        self.kills.append(kill)
        words = f"{host.name} (pid {pid}){' with an engine' if engine else ''}, away for {away_s:.1f} s"
        self._tell(f"kill {len(self.kills)}: {words}")
        return kill


async def _start_again(host: PoolHost, away_s: float) -> None:
    await asyncio.sleep(away_s)
    await host.start()
