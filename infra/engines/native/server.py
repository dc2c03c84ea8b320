"""`python -m infra.engines.native.server`: the native engine's process.

It outlives the agent that started it, so that a restarted agent finds its runs again. Nobody having
spoken to it for `--orphan-s` and nothing to do: it ends by itself. A lock makes it the only one in its folder.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from infra.engines.native.http import Answer, Request, serve_connection
from infra.engines.native.identity import engine_version, lock_folder
from infra.engines.native.runs import OrderRefused, Runs

WAIT_MAX_S = 10.0
"""The longest a follower may be kept waiting in one request."""
RESOLUTION_S = 1.0


class Server:
    """Routes requests to the runs and decides when to end."""

    def __init__(self, runs: Runs, *, orphan_s: float) -> None:
        """Nobody has spoken yet; the clock starts now."""
        self._runs = runs
        self._orphan_s = orphan_s
        self._heard_at = time.monotonic()
        self._version = engine_version()
        self.ending = asyncio.Event()

    async def handle(self, request: Request) -> Answer:
        """One request; unknown addresses are 404, malformed ones 400, orders that can't be run 422."""
        self._heard_at = time.monotonic()
        try:
            answer = await self._route(request)
        except OrderRefused as refused:
            failure = refused.failure
            return 422, {"failure": [failure.code, failure.message, failure.detail]}
        return (404, {"error": "no such address"}) if answer is None else (200, answer)

    async def _route(self, request: Request) -> dict[str, Any] | None:
        answer: dict[str, Any] | None = None
        match request.method, request.parts:
            case "GET", ("probe",):
                answer = self._probe()
            case "PUT", ("runs", run_id):
                answer = self._runs.submit(run_id, request.body)
            case "GET", ("runs", run_id):
                answer = await self._look(run_id, request.query)
            case "POST", ("runs", run_id, "cancel"):
                answer = self._runs.cancel(run_id)
            case "DELETE", ("runs", run_id):
                self._runs.forget(run_id)
                answer = {}
            case "PUT", ("residents", name):
                answer = {"done": await self._runs.load(name)}
            case "DELETE", ("residents", *names):
                answer = {"done": await self._runs.free(names[0] if names else None)}
        return answer

    async def _look(self, run_id: str, query: dict[str, str]) -> dict[str, Any]:
        if "wait_s" not in query:
            return self._runs.look(run_id)
        return await self._runs.follow(
            run_id,
            state=query.get("state", ""),
            wait_s=min(float(query["wait_s"]), WAIT_MAX_S),
        )

    async def tend(self) -> None:
        """Watch for having been left alone, and keep house."""
        while not self.ending.is_set():
            await self._runs.tend()
            quiet_since = max(self._heard_at, self._runs.idle_since)
            if not self._runs.working and time.monotonic() - quiet_since > self._orphan_s:
                self.ending.set()
            await asyncio.sleep(RESOLUTION_S)

    def _probe(self) -> dict[str, object]:
        return {
            "boot_id": self._runs.boot_id,
            "version": self._version,
            "pid": os.getpid(),
            "runs": sorted(self._runs.working),
            "kept": self._runs.records.kept(),
            "residents": self._runs.residents,
        }


async def serve(folder: Path, socket: Path, *, threads: int, orphan_s: float) -> None:
    """Serve until told to end or left alone."""
    runs = Runs(folder, threads=threads)
    server = Server(runs, orphan_s=orphan_s)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.ending.set)
    listener = await asyncio.start_unix_server(
        lambda reader, writer: serve_connection(server.handle, reader, writer), path=socket
    )
    tending = asyncio.create_task(server.tend())
    await server.ending.wait()
    listener.close()
    tending.cancel()
    await runs.close()


def main() -> int:
    """Parse the arguments and serve. Exit 75 when another engine has the folder."""
    parser = argparse.ArgumentParser(description="Holdfast's native engine")
    parser.add_argument("--folder", type=Path, required=True, help="runs and results of this engine")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to listen on")
    parser.add_argument("--threads", type=int, default=0, help="threads of a network; 0 means all cores allowed")
    parser.add_argument("--orphan-s", type=float, default=60.0, help="end after so many quiet seconds")
    arguments = parser.parse_args()
    if lock_folder(arguments.folder) is None:
        return os.EX_TEMPFAIL
    arguments.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    arguments.socket.unlink(missing_ok=True)  # the lock is ours, so whoever made it is gone
    threads = arguments.threads or len(os.sched_getaffinity(0))
    asyncio.run(serve(arguments.folder, arguments.socket, threads=threads, orphan_s=arguments.orphan_s))
    arguments.socket.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
