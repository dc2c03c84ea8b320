"""An engine within its agent's process that behaves as its script says. Never does it what it isn't told to."""

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from infra.engines.fake.script import Script
from infra.engines.port import (
    Collection,
    EngineFailure,
    OutputFile,
    Probe,
    Sighting,
    Submission,
)
from infra.engines.states import RunState
from workflows.contracts.failures import Code
from workflows.contracts.hosts import Loaded

STEPS = 10
SLOWER = 20
RESIDENT_MIB = 100
"""What it says that each of its residents takes."""


@dataclass
class _Run:
    submission: Submission
    script: Script
    started: float
    state: RunState = RunState.RUNNING
    step: int = 0
    stopped: bool = False
    failure: EngineFailure | None = None
    engine_s: float | None = None

    @property
    def fraction(self) -> float:
        return 1.0 if self.state is RunState.FINISHED else self.step / (STEPS + 1)


class FakeEngine:
    """The port, by script; also its own keeper, since it has no process.

    Attributes:
        submitted: How many runs were really started: what a test of "never twice" counts.
        residents: What it says that it has loaded.
    """

    kind = "fake"

    def __init__(
        self,
        scripts: Sequence[Script] = (Script.GOOD,),
        *,
        capabilities: tuple[str, ...] = ("image_upscale",),
        step_s: float = 0.02,
        keeps_records: bool = True,
    ) -> None:
        """Take a script for each run in turn; the last repeats. A run takes ten steps of `step_s` seconds."""
        self.capabilities = capabilities
        self.keeps_records = keeps_records
        self.submitted = 0
        self._scripts = list(scripts)
        self._step_s = step_s
        self._boot_id = os.urandom(8).hex()
        self._runs: dict[str, _Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead = False
        self._poisoned = False
        self.residents: list[Loaded] = []

    def plays(self, *scripts: Script) -> None:
        """From the next run on, these in turn; the last repeats."""
        self._scripts = list(scripts)

    @property
    def engine(self) -> "FakeEngine":
        """See `EngineKeeper.engine`."""
        return self

    async def keep(self) -> None:
        """See `EngineKeeper.keep`: a dead one is started again within a moment."""
        while True:
            if self._dead:
                await self.restart()
            await asyncio.sleep(self._step_s)

    async def restart(self) -> None:
        """See `EngineKeeper.restart`."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for run_id, run in list(self._runs.items()):
            if run.script is Script.LOSE_HISTORY:
                del self._runs[run_id]
            elif not run.state.is_over:
                run.state = RunState.LOST
        self._boot_id = os.urandom(8).hex()
        self._dead = self._poisoned = False
        self.residents.clear()

    async def submit(self, submission: Submission) -> Sighting:
        """See `Engine.submit`."""
        if self._dead:
            return self._silence(submission.run_id)
        known = self._runs.get(submission.run_id)
        if known is not None and known.state is not RunState.LOST:
            return self._look(submission.run_id)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        if script is Script.CRASH_ON_SUBMIT:
            self._dead = True
            return self._silence(submission.run_id)
        self.submitted += 1
        self._runs[submission.run_id] = _Run(submission, script, time.monotonic())
        task = asyncio.create_task(self._work(self._runs[submission.run_id]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return self._silence(submission.run_id) if script is Script.LOSE_ACK else self._look(submission.run_id)

    async def attach(self, run_id: str) -> Sighting:
        """See `Engine.attach`."""
        return self._look(run_id)

    async def follow(self, seen: Sighting, *, wait_s: float) -> Sighting:
        """See `Engine.follow`."""
        deadline = time.monotonic() + wait_s
        while True:
            sighting = self._look(seen.run_id)
            changed = (sighting.state, sighting.fraction) != (seen.state, seen.fraction)
            if changed or sighting.state.is_over or time.monotonic() >= deadline:
                return sighting
            await asyncio.sleep(self._step_s / 4)

    async def cancel(self, run_id: str) -> Sighting:
        """See `Engine.cancel`."""
        run = self._runs.get(run_id)
        if run is not None and not self._dead:
            run.stopped = True
        return self._look(run_id)

    async def collect(self, run_id: str, into: Path) -> Collection:
        """See `Engine.collect`."""
        run = self._runs.get(run_id)
        if self._dead or run is None or run.state is not RunState.FINISHED:
            return Collection(failure=EngineFailure(Code.UPSTREAM_FAILED, "The engine's result can't be used."))
        asked = len(run.submission.outputs)
        lacks = 1 if run.script in (Script.LACK_FIRST, Script.MIXED) else 0
        surplus = 1 if run.script is Script.SURPLUS else 0
        files = [
            await asyncio.to_thread(_draw, run, index, into / f"{index}.png")
            for index in range(lacks, asked + surplus)
        ]
        return Collection(files=tuple(files))

    async def forget(self, run_id: str) -> None:
        """See `Engine.forget`."""
        run = self._runs.get(run_id)
        if run is not None and run.state.is_over:
            del self._runs[run_id]

    async def load(self, name: str) -> bool:
        """See `Engine.load`: of any name, at once."""
        if self._dead or self._poisoned or self._is_working():
            return False
        if name not in [resident.name for resident in self.residents]:
            self.residents.append(Loaded(name=name, mib=RESIDENT_MIB))
        return True

    async def free(self, name: str | None = None) -> bool:
        """See `Engine.free`."""
        if self._dead or self._poisoned or self._is_working():
            return False
        self.residents[:] = [resident for resident in self.residents if name not in (None, resident.name)]
        return True

    def _is_working(self) -> bool:
        return any(not run.state.is_over for run in self._runs.values())

    async def probe(self) -> Probe | None:
        """See `Engine.probe`."""
        if self._dead:
            return None
        return Probe(
            boot_id=self._boot_id,
            version="fake",
            pid=None,
            runs=tuple(run_id for run_id, run in self._runs.items() if not run.state.is_over),
            kept=tuple(self._runs),
            residents=tuple(self.residents),
        )

    def _silence(self, run_id: str) -> Sighting:
        return Sighting(run_id, RunState.SILENT)

    def _look(self, run_id: str) -> Sighting:
        if self._dead:
            return self._silence(run_id)
        run = self._runs.get(run_id)
        if run is None:
            return Sighting(run_id, RunState.ABSENT, boot_id=self._boot_id)
        if run.script is Script.FALL_SILENT and run.step > 1 and run.state.is_alive:
            return self._silence(run_id)
        return Sighting(
            run_id=run_id,
            state=run.state,
            fraction=run.fraction,
            boot_id=self._boot_id,
            failure=run.failure,
            engine_s=run.engine_s,
            crashed=run.state is RunState.LOST,
        )

    async def _work(self, run: _Run) -> None:
        slow = run.script in (Script.SLOW, Script.IGNORE_CANCEL)
        for step in range(1, STEPS + 1):
            await asyncio.sleep(self._step_s * (SLOWER if slow else 1))
            if run.stopped and run.script is not Script.IGNORE_CANCEL:
                run.state = RunState.CANCELED
                return
            run.step = step
            if step == STEPS // 2 and not self._goes_on(run):
                return
        run.engine_s = time.monotonic() - run.started
        run.state = RunState.FINISHED
        if run.script is Script.LOSE_HISTORY:
            del self._runs[run.submission.run_id]
            self._boot_id = os.urandom(8).hex()

    def _goes_on(self, run: _Run) -> bool:
        """What happens half way."""
        if run.script is Script.CRASH_MID_RUN:
            self._dead = True
            run.state = RunState.LOST
        elif self._poisoned or run.script in (Script.OUT_OF_MEMORY, Script.POISONED):
            self._poisoned = self._poisoned or run.script is Script.POISONED
            run.failure = EngineFailure(Code.OUT_OF_MEMORY, "The engine ran out of memory.")
            run.state = RunState.FAILED
        return not self._poisoned and run.script not in (
            Script.CRASH_MID_RUN,
            Script.OUT_OF_MEMORY,
            Script.HANG,
            Script.FALL_SILENT,
        )


def _draw(run: _Run, index: int, path: Path) -> OutputFile:
    """One result: the input, enlarged without a network; or what the script makes of it."""
    outputs, script = run.submission.outputs, run.script
    is_last = index == len(outputs) - 1
    wanted = outputs[min(index, len(outputs) - 1)]
    size = (wanted.width + (1 if script is Script.WRONG_SIZE else 0), wanted.height)
    with Image.open(run.submission.inputs[0]) as source:
        mode = "RGBA" if source.has_transparency_data else "RGB"
        picture = source.convert(mode).resize(size, Image.Resampling.NEAREST)
    if index:
        picture.putpixel((0, 0), (index,) * len(mode))  # several results of one run are not the same picture
    if script is Script.BLACK or (script is Script.BLACK_LAST and is_last):
        picture = Image.new(mode, size)
    picture.save(path, "PNG")
    if script is Script.TRUNCATED or (script is Script.MIXED and is_last):
        os.truncate(path, path.stat().st_size * 9 // 10)
    data = path.read_bytes()
    return OutputFile(path, hashlib.sha256(data).hexdigest(), len(data), "image/png", index)
