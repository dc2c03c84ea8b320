"""The runs of a native engine: one works, few wait, all are recorded."""

import asyncio
import contextlib
import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.engines.native.networks import NETWORKS, NetworkMissing
from infra.engines.native.picture import PictureBroken
from infra.engines.native.records import Records, Result, ResultFile, RunFailure
from infra.engines.native.upscale import Job, Stopped, Upscaler
from infra.engines.states import RunState

QUEUE_MAX = 4
"""A card runs one at a time; more than these would wait for a card that isn't theirs."""
UNLOAD_AFTER_S = 60.0
"""Idle seconds after which the networks go; the next run loads them again in 0.2 s."""
SWEEP_EACH_S = 3600.0


@dataclass
class Run:
    """A run that this process has."""

    run_id: str
    job: Job
    state: RunState = RunState.QUEUED
    fraction: float = 0.0
    result: Result | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class OrderRefused(Exception):
    """The order can't be run here; nothing was accepted."""

    def __init__(self, failure: RunFailure) -> None:
        """Carry the failure."""
        super().__init__(failure.message)
        self.failure = failure


class Runs:
    """Accepts, runs, finds, stops and forgets runs. All methods are called on the event loop's thread."""

    def __init__(self, root: Path, *, threads: int) -> None:
        """Open the records; nothing is loaded yet."""
        self.boot_id = os.urandom(8).hex()
        self.records = Records(root)
        self.idle_since = time.monotonic()
        self._live: dict[str, Run] = {}
        self._upscaler = Upscaler(threads=threads)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upscale")
        self._loaded = False
        self._closing = False
        self._swept_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def working(self) -> frozenset[str]:
        """Runs that are worked on or wait."""
        return frozenset(self._live)

    @property
    def residents(self) -> list[tuple[str, int, float]]:
        """The network that is loaded, if any: its name, MiB, and the seconds that loading it took."""
        loaded = self._upscaler.loaded
        return [] if loaded is None else [(loaded.name, loaded.mib, loaded.load_s)]

    async def load(self, name: str) -> bool:
        """Load a network by name, when idle; True when it is loaded."""
        spec = next((spec for spec in NETWORKS.values() if spec.file == name), None)
        if spec is None or self._live or self._closing:
            return False
        self._loaded = True
        self.idle_since = time.monotonic()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._upscaler.load, spec)
        except (MemoryError, NetworkMissing):
            return False
        return True

    async def free(self, name: str | None = None) -> bool:
        """Drop the network that is loaded, when idle; another than the one named is gone already."""
        if name is not None and name not in [resident[0] for resident in self.residents]:
            return True
        if self._live:
            return False
        await asyncio.get_running_loop().run_in_executor(self._executor, self._upscaler.unload)
        return True

    def submit(self, run_id: str, order: dict[str, Any]) -> dict[str, Any]:
        """Accept a run, or find the one that is known.

        Raises:
            OrderRefused: It can't be run here.
            ValueError: The run's id has the wrong form.
        """
        known = self.look(run_id)
        if known["state"] not in (RunState.ABSENT, RunState.LOST):
            return known
        if self._closing or len(self._live) >= QUEUE_MAX:
            raise OrderRefused(RunFailure("service_unavailable", "The engine takes no more runs.", "queue full"))
        job = _job(order, self.records.folder(run_id))
        try:
            self.records.accept(run_id, order)
        except OSError as error:
            raise OrderRefused(
                RunFailure("service_unavailable", "The host can't store the run.", str(error))
            ) from error
        run = self._live[run_id] = Run(run_id, job)
        task = asyncio.create_task(self._course(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return self.look(run_id)

    def look(self, run_id: str) -> dict[str, Any]:
        """What is seen of a run, as it goes over the wire.

        Raises:
            ValueError: The run's id has the wrong form.
        """
        run = self._live.get(run_id)
        if run is not None:
            return self._sighting(run_id, run.state, run.fraction, None)
        result = self.records.find(run_id)
        if result is None:
            return self._sighting(run_id, RunState.ABSENT, 0.0, None)
        return self._sighting(run_id, result.state, 1.0 if result.state is RunState.FINISHED else 0.0, result)

    async def follow(self, run_id: str, *, state: str, wait_s: float) -> dict[str, Any]:
        """The next sighting of another state, or whatever is seen after `wait_s`.

        Progress alone wakes nobody: told at each tile, it took the cores from the network that makes it.
        """
        run = self._live.get(run_id)
        if run is not None and run.state == state:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.changed.wait(), wait_s)
        return self.look(run_id)

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Ask a run to stop at its next tile; what is answered is what is seen right now."""
        run = self._live.get(run_id)
        if run is not None:
            run.stop.set()
        return self.look(run_id)

    def forget(self, run_id: str) -> None:
        """Drop the record and the files of a run that is over; one that is worked on stays."""
        if run_id not in self._live:
            self.records.forget(run_id)

    async def tend(self) -> None:
        """Unload and sweep when idle. Called about once a second."""
        idle_s = time.monotonic() - self.idle_since
        if self._loaded and not self._live and idle_s > UNLOAD_AFTER_S:
            self._loaded = False
            await asyncio.get_running_loop().run_in_executor(self._executor, self._upscaler.unload)
        if time.monotonic() - self._swept_at > SWEEP_EACH_S or not self._swept_at:
            self._swept_at = time.monotonic()
            self.records.sweep(working=self.working, now=time.time())

    async def close(self) -> None:
        """Stop at the next tile; runs that were worked on are lost, by request and not by a crash."""
        self._closing = True
        for run in self._live.values():
            run.stop.set()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._executor.shutdown()

    async def _course(self, run: Run) -> None:
        loop = asyncio.get_running_loop()
        self._loaded = True
        started = time.monotonic()

        def progress(fraction: float) -> bool:
            run.fraction = max(run.fraction, fraction)  # the event loop only reads it
            return not run.stop.is_set()

        def work() -> Result:
            nonlocal started
            started = time.monotonic()
            loop.call_soon_threadsafe(self._start, run)
            return self._work(run, progress)

        result = await loop.run_in_executor(self._executor, work)
        if result.state is RunState.CANCELED and self._closing:
            result = Result(RunState.LOST, crashed=False)
        result = Result(result.state, result.files, result.failure, time.monotonic() - started, result.crashed)
        with contextlib.suppress(OSError):  # a full disk: the run will be found without a result, which is true
            self.records.finish(run.run_id, result)
        del self._live[run.run_id]
        self.idle_since = time.monotonic()
        run.changed.set()

    def _work(self, run: Run, progress: Any) -> Result:
        """The run itself, in the compute thread: an engine answers, it doesn't raise."""
        if not progress(0.0):
            return Result(RunState.CANCELED)
        try:
            self._upscaler.run(run.job, progress)
            return Result(RunState.FINISHED, files=(_described(run.job.target),))
        except Stopped:
            return Result(RunState.CANCELED)
        except Exception as error:  # noqa: BLE001 - every way to fail becomes a definite answer
            failure = _failure(error)
        if failure.code == "out_of_memory":
            self._upscaler.unload()
        return Result(RunState.FAILED, failure=failure)

    def _start(self, run: Run) -> None:
        run.state = RunState.RUNNING
        run.changed.set()
        run.changed = asyncio.Event()

    def _sighting(self, run_id: str, state: RunState, fraction: float, result: Result | None) -> dict[str, Any]:
        seen: dict[str, Any] = {"run_id": run_id, "state": state, "fraction": fraction, "boot_id": self.boot_id}
        if result is not None:
            failure = result.failure
            folder = self.records.folder(run_id)
            seen["engine_s"] = result.engine_s
            seen["crashed"] = result.crashed
            seen["failure"] = failure and [failure.code, failure.message, failure.detail]
            seen["files"] = [[str(folder / f.name), f.sha256, f.size, f.mime] for f in result.files]
        return seen


def _job(order: dict[str, Any], folder: Path) -> Job:
    """The job that an order means.

    Raises:
        OrderRefused: It asks for what this engine doesn't do.
    """
    mode, scale = order.get("mode"), order.get("parameters", {}).get("scale")
    inputs = order.get("inputs", [])
    if order.get("capability") != "image_upscale" or (mode, scale) not in NETWORKS or len(inputs) != 1:
        raise OrderRefused(
            RunFailure("invalid_request", "This engine doesn't do that.", f"{mode=} {scale=} inputs={len(inputs)}")
        )
    return Job(
        source=Path(inputs[0]),
        target=folder / "0.png",
        scratch=folder / "scratch",
        mode=str(mode),
        scale=int(scale),
    )


def _described(path: Path) -> ResultFile:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return ResultFile(path.name, sha256, path.stat().st_size, "image/png")


def _failure(error: Exception) -> RunFailure:
    detail = f"{type(error).__name__}: {error}"[:2000]
    match error:
        case PictureBroken():
            return RunFailure("invalid_media", "The picture can't be decoded to its end.", detail)
        case MemoryError():
            return RunFailure("out_of_memory", "The engine ran out of memory.", detail)
        case NetworkMissing():
            return RunFailure("not_configured", "The engine's networks aren't installed.", detail)
        case FileNotFoundError():
            return RunFailure("upstream_failed", "The engine lost a file of the run.", detail)
        case OSError():
            return RunFailure("service_unavailable", "The host's disk can't hold the run.", detail)
        case _:
            return RunFailure("upstream_failed", "The engine failed.", detail)
