"""What the idle stack weighs: the proportional set size of every process that belongs to it."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra.engines.native.identity import holder
from infra.local.layout import Layout
from workers.bench.pictures import picture
from workers.bench.visitor import Visitor
from workers.cli.report import Figure, at_most
from workers.supervisor import state

SIDE = 256
SETTLE_S = 120
PSS_MIB_MAX = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Weighed:
    """One process. PSS counts a page that several share by its part, so that a sum counts it once."""

    pid: int
    command: str
    pss_mib: float


async def idle(visitor: Visitor, home: Path, *, idle_s: float) -> list[Figure]:
    """Run one generation, as a demo does, let the stack lie for `idle_s` seconds, and weigh it."""
    created = await visitor.create(picture(SIDE, SIDE))
    await visitor.complete(created.task_id, within_s=SETTLE_S)
    await asyncio.sleep(idle_s)
    weighed = sorted(weigh(home), key=lambda one: -one.pss_mib)
    raw = [{"pid": one.pid, "command": one.command, "pss_mib": round(one.pss_mib, 1)} for one in weighed]
    return [at_most("idle_pss_mib", sum(one.pss_mib for one in weighed), PSS_MIB_MAX, "MiB", raw)]


def weigh(home: Path) -> Iterator[Weighed]:
    """Every process of the stack of `home`, this one and its children apart."""
    own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for process in belonging(home):
        if process.pid in own:
            continue
        try:
            # A word of each argument at most: arguments may carry addresses.
            words = [Path(word).name for word in process.cmdline()[:4]]
            yield Weighed(process.pid, " ".join(words), process.memory_full_info().pss / MIB)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def belonging(home: Path) -> list[psutil.Process]:
    """The supervisor with all below it, and the engines, which may have outlived the agent that started them."""
    stack = state.read(Layout(home).run / "state.json")
    roots = [stack.pid] if stack and stack.alive else []
    roots += [pid for folder in (home / "engines").glob("*/") if (pid := holder(folder))]
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found |= {process.pid: process for process in (root, *root.children(recursive=True))}
        except psutil.NoSuchProcess:
            continue
    return list(found.values())
