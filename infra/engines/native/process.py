"""The native engine's process: started, adopted, watched, restarted, and stopped for good by `stop_engines`.

An engine belongs to its folder and not to the agent that started it: it runs in a session of its own, so an
agent can be restarted in the middle of a run. Who holds the folder's lock is the engine.
"""

import asyncio
import hashlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import structlog

from infra.engines.native.driver import NativeEngine
from infra.engines.native.identity import LOCK_NAME, engine_version, holder
from infra.settings import environment_for_engines

LOOK_EACH_S = 0.25
PROBE_EACH_S = 1.0
STARTS_WITHIN_S = 20.0
"""Importing the libraries takes 0.4 s on an idle core; a loaded machine is given fifty times that."""
SILENT_MAX_S = 20.0
"""An engine that holds the lock and answers nothing for so long is hung, and is ended by force."""
BACKOFF_MAX_S = 10.0
RUNTIME = {
    # ncnn's threads spin at each barrier otherwise: beside busy neighbours on two cores a tile took 11.6 s, with
    # this 2.0 s; on an idle machine there is no difference.
    "OMP_WAIT_POLICY": "PASSIVE",
    # glibc raises this by itself up to 32 MiB and then keeps what was freed: 171 MiB after a run became 68.
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}
"""What the engine's libraries read from the environment when they are loaded."""
LOG_BYTES_MAX = 1024 * 1024
SOCKET_PATH_MAX = 100
"""Unix sockets take 107 bytes of path on Linux."""

log = structlog.get_logger(__name__)


def socket_path(folder: Path) -> Path:
    """Where the engine of a folder listens: inside it, or in the temporary folder when its path is too long."""
    inside = folder / "engine.sock"
    if len(os.fsencode(inside)) <= SOCKET_PATH_MAX:
        return inside
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}-{name}" / "engine.sock"


class NativeProcess:
    """Keeps one engine process alive."""

    def __init__(self, folder: Path, *, threads: int, orphan_s: float = 60.0) -> None:
        """Start nothing yet.

        Args:
            folder: The engine's own; made where it isn't.
            threads: Of a network; 0 means all cores allowed.
            orphan_s: Quiet seconds after which an idle engine ends by itself.
        """
        self._folder = folder
        self._socket = socket_path(folder)
        self._threads = threads
        self._orphan_s = orphan_s
        self._child: int | None = None
        self._starts = 0
        self._restarting = asyncio.Lock()
        self.engine = NativeEngine(folder=folder, socket=self._socket)

    async def keep(self) -> None:
        """See `EngineKeeper.keep`."""
        silent_since: float | None = None
        backoff_s = LOOK_EACH_S
        while True:
            async with self._restarting:
                self._reap()
                probe = await self.engine.probe()
                if probe is not None:
                    silent_since, backoff_s = None, LOOK_EACH_S
                    if probe.version != engine_version() and not probe.runs:
                        log.info("engine_outdated", running=probe.version)
                        await self._end()
                elif self._child is None and holder(self._folder) is None:
                    self._spawn()
                    await self._until_up()
                    backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
                else:
                    silent_since = silent_since or time.monotonic()
                    if time.monotonic() - silent_since > SILENT_MAX_S:
                        log.warning("engine_hung", folder=str(self._folder))
                        await self._end()
                        silent_since = None
            await (asyncio.sleep(backoff_s) if probe is None else self._until_it_ends(PROBE_EACH_S))

    async def restart(self) -> None:
        """See `EngineKeeper.restart`."""
        async with self._restarting:
            await self._end()
            self._spawn()
            await self._until_up()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """End the engine for good, at its next tile or after `grace_s` by force. `keep` must not run any more."""
        await asyncio.to_thread(stop_engine, self._folder, grace_s=grace_s)
        await self._until_gone()
        await self.engine.close()

    def _spawn(self) -> None:
        self._starts += 1
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        arguments = [
            *(sys.executable, "-m", "infra.engines.native.server"),
            *("--folder", str(self._folder), "--socket", str(self._socket)),
            *("--threads", str(self._threads), "--orphan-s", str(self._orphan_s)),
        ]
        output = self._folder / "engine.log"
        append = os.O_APPEND if not output.exists() or output.stat().st_size < LOG_BYTES_MAX else os.O_TRUNC
        opened = os.O_WRONLY | os.O_CREAT | append
        self._child = os.posix_spawn(
            sys.executable,
            arguments,
            environment_for_engines() | RUNTIME,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(output), opened, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,  # signals to the agent's group must not reach it
        )
        log.info("engine_started", pid=self._child, start=self._starts)

    async def _until_it_ends(self, at_most_s: float) -> None:
        """Sleep; a child's end is noticed at once, since looking costs nothing, unlike a probe."""
        for _ in range(round(at_most_s / LOOK_EACH_S)):
            await asyncio.sleep(LOOK_EACH_S)
            if self._reap():
                return

    async def _until_up(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < deadline and self._child is not None:
            if await self.engine.probe() is not None:
                return
            await asyncio.sleep(0.02)
            self._reap()

    async def _end(self) -> None:
        pid = holder(self._folder) or self._child
        if pid is not None:
            _kill(pid, signal.SIGKILL)
        await self._until_gone()

    async def _until_gone(self) -> None:
        while holder(self._folder) is not None or self._child is not None:
            await asyncio.sleep(0.01)
            self._reap()

    def _reap(self) -> bool:
        """Notice that our child ended, just now. An adopted engine is somebody else's and shows by its lock."""
        if self._child is None:
            return False
        try:
            pid, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._child, 0
        if pid:
            log.warning("engine_ended", pid=pid, code=os.waitstatus_to_exitcode(status))
            self._child = None
        return bool(pid)


def stop_engine(folder: Path, *, grace_s: float) -> bool:
    """End the engine of a folder, whoever started it; True when there was one. Blocking."""
    pid = holder(folder)
    if pid is None:
        return False
    _kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while holder(folder) == pid:
        if time.monotonic() > deadline:
            _kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return True


def stop_engines(home: Path, *, grace_s: float = 5.0) -> int:
    """End every native engine under a home; how many there were. For `holdfast down`, after the agent ended."""
    folders = sorted((home / "engines").glob(f"*/{LOCK_NAME}"))
    return sum(stop_engine(path.parent, grace_s=grace_s) for path in folders)


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
