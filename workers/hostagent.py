"""`python -m workers.hostagent`: one process a host. Owns its cards, their engines, and the journal.

Being ended by SIGTERM leaves a run in its engine, which the next agent attaches to. To stop a host for good,
`infra.engines.native.process.stop_engines` comes after.
"""

import asyncio
import contextlib
import fcntl
import os
import secrets
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pynvml
import structlog
import uvloop

from activities.card_desk import CardDesk
from infra.engines.native.process import NativeProcess
from infra.engines.port import EngineKeeper
from infra.gpu.cpu import CpuInventory
from infra.gpu.fake import ReplayedNvml
from infra.gpu.nvml import NvmlInventory
from infra.gpu.processes import descends_from
from infra.hosts.client import HostClient
from infra.hosts.identity import host_identity
from infra.hosts.journal import Journal, JournalUnwritable
from infra.orders import OrderKeys
from infra.settings import Settings
from infra.telemetry import configure_logging
from workers.card import serve_card
from workers.reporting import Reporter
from workers.runtime import Stop, connected
from workers.strays import keep_settling, settle_at_start
from workers.watching import Watch

RETRY_S = 2.0

log = structlog.get_logger(__name__)


class HostAgent:
    """The agent of one host."""

    def __init__(self, settings: Settings) -> None:
        """Touch nothing yet."""
        self._settings = settings
        self._stopping = asyncio.Event()
        self._boot_id = secrets.token_hex(16)
        self._desks: dict[str, CardDesk] = {}
        self._engines: dict[str, int] = {}

    async def run(self) -> None:
        """Own the cards until told to stop. Parts that are away are waited for; none of them ends it."""
        Stop(self._stopping).listen()
        folder = self._settings.home / "host"
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        async with contextlib.AsyncExitStack() as stack:
            lock = await self._sole_owner(folder / "agent.lock")
            stack.callback(os.close, lock)
            journal = await self._journal(folder / "journal.db")
            stack.callback(journal.close)
            keys = OrderKeys(self._settings.order_keys)
            if not self._settings.order_keys:
                log.error("no_order_keys", hint="HOLDFAST_ORDER_PUBLIC_KEYS; every order is refused without")
            client = HostClient(
                self._settings.internal_url, self._settings.host_token.get_secret_value(), keys=keys
            )
            stack.push_async_callback(client.close)
            await self._own_cards(folder, journal, client, stack)

    async def _own_cards(
        self, folder: Path, journal: Journal, client: HostClient, stack: contextlib.AsyncExitStack
    ) -> None:
        cpu, gpus = await self._inventories(stack)
        watches = Watch(cpu), Watch(gpus)
        reporter = Reporter(
            boot_id=self._boot_id,
            host_id=await asyncio.to_thread(host_identity, folder),
            watches=watches,
            desks=self._desks,
            client=client,
            engines=self._engines,
        )
        # Every card is shown; one gets a desk where an engine for it exists. The native one runs on the CPU, so
        # that is its card, GPUs or not; only drills have an engine for GPUs so far.
        for watch in watches:
            for card in await asyncio.to_thread(watch.inventory.cards):
                if watch.inventory is cpu or self._settings.engine == "fake":
                    self._desks[card.uuid] = CardDesk(
                        card_uuid=card.uuid,
                        boot_id=self._boot_id,
                        keeper=self._keeper(card.uuid),
                        journal=journal,
                        client=client,
                        folder=folder / "runs" / card.uuid,
                        owned=asyncio.Event(),
                        tell=reporter.tell,
                        meter=watch.meter(card.uuid),
                    )
        await self._serve(reporter, watches)

    async def _inventories(self, stack: contextlib.AsyncExitStack) -> tuple[CpuInventory, NvmlInventory]:
        settings, recording = self._settings, self._settings.nvml_recording
        gpus = NvmlInventory(
            pynvml if recording is None else await asyncio.to_thread(ReplayedNvml, recording),
            is_ours=lambda pid: descends_from(pid, {os.getpid(), *self._engines.values()}),
        )
        stack.callback(gpus.close)
        return CpuInventory(settings.home, count=settings.cpu_cards, engines=self._engines), gpus

    async def _serve(self, reporter: Reporter, watches: Sequence[Watch]) -> None:
        desks = tuple(self._desks.values())
        background = [asyncio.create_task(desk.keeper.keep()) for desk in desks]
        background += [asyncio.create_task(watch.run()) for watch in watches]
        try:
            await self._unless_stopped(self._settle_at_start(desks, reporter))
            background += [asyncio.create_task(reporter.run())]
            background += [asyncio.create_task(keep_settling(desk)) for desk in desks]
            for task in background:
                task.add_done_callback(self._background_ended)
            temporal = await connected(self._settings, Stop(self._stopping))
            if temporal is not None:
                log.info("host_ready", cards=list(self._desks), boot_id=self._boot_id)
                await asyncio.gather(*(serve_card(temporal, desk, self._stopping) for desk in desks))
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    @staticmethod
    async def _settle_at_start(desks: Sequence[CardDesk], reporter: Reporter) -> None:
        """Look at every card at once: an engine that doesn't start must not keep the others waiting."""
        for desk, is_clean in zip(desks, await asyncio.gather(*map(settle_at_start, desks)), strict=True):
            if is_clean:
                # Also after a journal that was removed, or lost by an agent that ended before it was heard:
                # the database remembers a fence of which no journal will ever say that it is over.
                reporter.clean_slate(desk.card_uuid)

    def _keeper(self, card_uuid: str) -> EngineKeeper:
        if self._settings.engine == "fake":
            # Drills only; it draws pictures, with a library that no other agent has to load.
            from infra.engines.fake.engine import FakeEngine  # noqa: PLC0415 - as said above
            from infra.engines.fake.script import Script  # noqa: PLC0415 - as said above

            log.warning("fake_engine", scripts=self._settings.fake_scripts)
            return FakeEngine(Script.parse(self._settings.fake_scripts))
        folder = self._settings.home / "engines" / card_uuid
        return NativeProcess(folder, threads=self._threads())

    def _threads(self) -> int:
        """Of each engine. Several that each took all cores would be slower than one after the other."""
        if self._settings.cpu_threads or self._settings.cpu_cards == 1:
            return self._settings.cpu_threads
        return max(1, len(os.sched_getaffinity(0)) // self._settings.cpu_cards)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        """A part that must never end did: a bug. End as a whole, so that the supervisor starts us anew."""
        if not task.cancelled():
            log.error("background_ended", reason=repr(task.exception()))
            self._stopping.set()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            task.result()
        task.cancel()

    async def _sole_owner(self, path: Path) -> int:
        """The lock that makes this the host's only agent; waits for an older one to leave."""
        handle = await asyncio.to_thread(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        waited = False
        while not self._stopping.is_set():
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    log.warning("waiting_for_older_agent")
                waited = True
                await asyncio.sleep(0.2)
        return handle

    async def _journal(self, path: Path) -> Journal:
        while True:
            try:
                return await asyncio.to_thread(Journal, path)
            except JournalUnwritable as error:
                log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all
            if self._stopping.is_set():
                raise SystemExit(1)
            await asyncio.sleep(RETRY_S)


def main() -> int:
    """Run the agent with settings from the environment."""
    configure_logging("hostagent")
    uvloop.run(HostAgent(Settings()).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
