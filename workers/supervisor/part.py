"""One supervised process: started, watched, started again when it dies, stopped."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import structlog

from workers.supervisor.state import Condition, PartState, is_same_process

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 5.0
STEADY_S = 20.0
"""A part that ran this long is restarted at once again; below it the pause doubles."""
_LOOK_S = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PartSpec:
    """How to run one part.

    Attributes:
        name: As `orchestrator`; also its log file's.
        argv: Its command line.
        environment: All of it.
        answers: Whether it does its work now; what `up` waits for.
        user: The operating system's user; None for ours.
        group: As `user`.
        stop_signal: What makes it stop cleanly.
        stop_s: Seconds it may take before it is killed.
    """

    name: str
    argv: list[str]
    environment: Mapping[str, str]
    answers: Callable[[], Awaitable[bool]]
    user: int | None = None
    group: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_s: float = 20.0


class Part:
    """Keeps one process running until told to stop."""

    def __init__(self, spec: PartSpec, *, log_file: Path, changed: Callable[[], None]) -> None:
        """Start nothing yet; `changed` is called whenever `state` did."""
        self.spec = spec
        self._log_file = log_file
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None
        self._condition: Condition = "waiting"
        self._started_at: float | None = None
        self._restarts = 0
        self._note = ""
        self._up = asyncio.Event()

    @property
    def state(self) -> PartState:
        """For the state file."""
        pid = self._process.pid if self._process and self._process.returncode is None else None
        return PartState(
            self.spec.name, self._condition, pid, self._started_at if pid else None, self._restarts, self._note
        )

    def start(self) -> None:
        """Run it, and run it again whenever it ends."""
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.spec.name}")

    async def until_up(self) -> None:
        """Wait until it does its work. It is restarted meanwhile as often as needed."""
        await self._up.wait()

    async def stop(self) -> None:
        """Stop it: its own signal, then force."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(self.spec.stop_signal)
            try:
                async with asyncio.timeout(self.spec.stop_s):
                    await process.wait()
            except TimeoutError:
                log.warning("part_killed", part=self.spec.name, after_s=self.spec.stop_s)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._become("stopped")

    async def _keep(self) -> None:
        pause_s = BACKOFF_FIRST_S
        while not self._is_stopping():
            began = time.monotonic()
            self._become("starting" if self._restarts == 0 else "restarting")
            try:
                await self._spawn()
            except OSError as error:
                self._note = f"can't be started: {error}"
            else:
                await self._watch()
            if self._is_stopping():
                return
            self._restarts += 1
            log.warning("part_ended", part=self.spec.name, note=self._note, restarts=self._restarts)
            self._become("restarting")
            pause_s = BACKOFF_FIRST_S if time.monotonic() - began > STEADY_S else min(pause_s * 2, BACKOFF_MAX_S)
            await asyncio.sleep(pause_s)

    async def _spawn(self) -> None:
        descriptor = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.spec.argv,
                env=dict(self.spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                cwd="/",  # an import must not depend on where the operator stands
                start_new_session=True,  # Ctrl-C reaches the supervisor alone, which stops parts in order
                user=self.spec.user,
                group=self.spec.group,
            )
        finally:
            os.close(descriptor)
        with contextlib.suppress(psutil.NoSuchProcess):
            self._started_at = psutil.Process(self._process.pid).create_time()
        self._changed()

    async def _watch(self) -> None:
        process = self._process
        if process is None:
            return
        ended = asyncio.create_task(process.wait())
        try:
            while not ended.done() and not await self.spec.answers():
                await asyncio.wait({ended}, timeout=_LOOK_S)
            if not ended.done():
                self._note = ""
                self._become("up")
            code = await ended
        finally:
            ended.cancel()
        self._note = f"ended with {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def _is_stopping(self) -> bool:
        return self._stopping

    def _become(self, condition: Condition) -> None:
        self._condition = condition
        if condition == "up":
            self._up.set()
        else:
            self._up.clear()
        self._changed()


def end_orphan(state: PartState, *, patience_s: float) -> bool:
    """End a part that an earlier supervisor left behind; False when there is none.

    Only the very process that the state names is touched: the same pid with the same time of creation.
    """
    if state.pid is None or state.started_at is None or not is_same_process(state.pid, state.started_at):
        return False
    try:
        process = psutil.Process(state.pid)
        # Postgres' fast shutdown is SIGINT; with SIGTERM it would wait for its clients to leave.
        process.send_signal(signal.SIGINT if state.name == "postgres" else signal.SIGTERM)
        try:
            process.wait(patience_s)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(patience_s)
    except psutil.NoSuchProcess:
        return False  # it ended by itself meanwhile
    return True
