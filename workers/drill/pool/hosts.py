"""Host agents of the drill's own: processes, each with a home and so journal, engines and cards of its own."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from infra.engines.native.identity import holder
from infra.engines.native.process import stop_engines
from infra.settings import Settings
from workers.supervisor.plan import worker

STOP_S = 40.0
"""An agent's own drain takes less; force is for the stuck only."""
_NOT_OF_A_HOST = ("session_secret", "signing_secret", "receipt_key", "order_key")


class PoolHost:
    """One host: its agent is started, killed and started again; its engines live on, as on any host."""

    def __init__(self, stack: Settings, number: int, *, cards: int) -> None:
        """Start nothing yet."""
        self.name = f"host-{number}"
        self.home = stack.home / self.name
        # A host has the API's address, its token and the Temporal server's, and no more.
        settings = stack.model_copy(
            update={
                "home": self.home,
                "cpu_cards": cards,
                "cpu_threads": 1,
                "metrics_port": 0,
                "database_url": None,
                "object_store_url": None,
                "fault_points": "",
                **dict.fromkeys(_NOT_OF_A_HOST, SecretStr("")),
            }
        )
        self._spec = worker("hostagent", settings)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def lives(self) -> bool:
        """Whether its agent runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """Of its agent."""
        return self._process.pid if self._process is not None and self.lives else None

    async def start(self) -> None:
        """Start the agent, which finds its journal and engines as they were left."""
        await asyncio.to_thread(self.home.mkdir, mode=0o700, exist_ok=True)
        log = os.open(self.home / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._spec.argv,
                env=dict(self._spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def kill(self) -> None:
        """End the agent as `kill -9` does."""
        await self._end(signal.SIGKILL)

    def engine_folders(self) -> list[Path]:
        """One folder a card, in a stable order."""
        return sorted((self.home / "engines").glob("*/"))

    def kill_engine(self, folder: Path) -> bool:
        """End the engine of a folder as `kill -9` does; False when none is there."""
        pid = holder(folder)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    async def stop(self) -> None:
        """End agent and engines for good."""
        try:
            async with asyncio.timeout(STOP_S):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self._end(signal.SIGKILL)
        await asyncio.to_thread(stop_engines, self.home)

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        await process.wait()


@asynccontextmanager
async def pool_hosts(stack: Settings, count: int, *, cards: int) -> AsyncIterator[Sequence[PoolHost]]:
    """So many hosts, their agents started; nothing of them runs any more afterwards."""
    hosts = [PoolHost(stack, number, cards=cards) for number in range(1, count + 1)]
    try:
        for host in hosts:
            await host.start()
        yield hosts
    finally:
        await asyncio.gather(*(host.stop() for host in hosts))
