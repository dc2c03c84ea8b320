"""`python -m workers.supervisor.supervisor`: brings the stack up and keeps it up until SIGTERM."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import structlog
from temporalio.client import Client
from temporalio.service import RPCError

from infra.db import Database, DatabaseTrouble
from infra.db.migrate import migrate
from infra.engines.native.process import stop_engines
from infra.local import ports as ports_file
from infra.local import secret
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres
from infra.local.stack import with_stack
from infra.settings import Settings
from infra.telemetry import configure_logging
from infra.temporal import deployment
from infra.temporal.apply import apply
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from workers import demo_account
from workers.supervisor import plan, state
from workers.supervisor.part import Part, PartSpec, end_orphan
from workers.supervisor.sole import ALREADY_RUNS, sole_supervisor
from workers.sweep import TemporalSilentError, sweep
from workflows.contracts.sweep import SweepOrder

PATIENCE = timedelta(seconds=120)
"""For each step of coming up; on a loaded machine the slowest, Postgres' first start, takes 10 s."""
ORPHAN_S = 20.0
LOG_BYTES_MAX = 20 * 1024 * 1024
LOG_LOOK_S = 30.0
CODE_LOOK_S = 10.0
CODE_PATIENCE = timedelta(seconds=1)
_RETRY_S = 0.1

log = structlog.get_logger(__name__)


class HalfRestoredError(Exception):
    """A restore was cut off, and what lies here is half of it. Repeat `holdfast restore FILE --replace`."""


class Supervisor:
    """One stack's."""

    def __init__(self, settings: Settings) -> None:
        """Touch nothing yet."""
        self._operators = settings
        self._layout = Layout(settings.home)
        self._parts: dict[str, Part] = {}
        self._stopping = asyncio.Event()
        self._ready = False
        self._step = ""
        self._failure = ""
        self._started_at = psutil.Process().create_time()

    async def run(self) -> int:
        """Bring everything up, keep it up, take it down. The exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
        coming_up = asyncio.create_task(self._come_up())
        stop = asyncio.create_task(self._stopping.wait())
        rotating = asyncio.create_task(self._rotate_logs())
        await asyncio.wait({coming_up, stop}, return_when=asyncio.FIRST_COMPLETED)
        if coming_up.done() and (error := coming_up.exception()) is not None:
            log.error("stack_failed", step=self._step, reason=repr(error))
            self._failure = f"{self._step}: {str(error) or type(error).__name__}"
            self._tell()
        else:
            await self._stopping.wait()
        coming_up.cancel()
        rotating.cancel()
        await asyncio.gather(coming_up, rotating, return_exceptions=True)
        await self._go_down()
        return 1 if self._failure else 0

    async def _come_up(self) -> None:
        if self._layout.restoring.exists():
            self._step = "looking at the data"
            raise HalfRestoredError(HalfRestoredError.__doc__)
        self._say("ending what an earlier run left behind")
        await asyncio.to_thread(self._end_orphans)
        secret.ensure(self._layout.secrets)
        ports = ports_file.choose(self._layout.run / "ports.json", api=self._operators.api_port)
        settings = with_stack(self._operators, ports)
        for folder in (self._layout.temporal, self._layout.store):
            folder.mkdir(mode=0o700, exist_ok=True)
        if self._operators.database_url is None:
            self._say("preparing Postgres")
            await asyncio.to_thread(EmbeddedPostgres(self._layout).prepare)
            self._start(plan.postgres(self._layout))
        if self._operators.temporal_address is None:
            self._start(plan.temporal(settings, self._layout, ports))
        await self._prepare_database(settings)
        client = await self._prepare_temporal(settings)
        await self._sweep(settings, client)
        if settings.database_url != self._operators.database_url:
            self._say("making the demo account")
            await self._demo_account(settings)
        self._say("starting API and workers")
        for name in plan.ASKED_FIRST:
            self._start(plan.worker(name, settings))
        self._say("waiting for the orchestrator to poll")
        build = deployment.build_id()
        await deployment.promote(client, build, patience=PATIENCE)
        await self._adopt_stranded(client, build)
        self._say("waiting for the API")
        await self._parts["api"].until_up()
        for name in plan.ASKED_LATER:
            self._start(plan.worker(name, settings))
        self._ready = True
        self._say("up")
        await self._follow_code(client, build)

    async def _follow_code(self, client: Client, build: str) -> None:
        """Make a restarted orchestrator's build current: in a checkout, code may change while the stack runs."""
        while True:
            await asyncio.sleep(CODE_LOOK_S)
            found = await asyncio.to_thread(deployment.build_id_now)
            if found == build:
                continue
            try:
                await deployment.promote(client, found, patience=CODE_PATIENCE)
                await self._adopt_stranded(client, found)
            except (TimeoutError, RPCError) as error:  # edited, but no orchestrator of it was started yet
                log.info("code_changed", build=found, running=build, reason=repr(error))
            else:
                log.warning("code_followed", build=found, before=build)
                build = found

    async def _prepare_database(self, settings: Settings) -> None:
        if "postgres" in self._parts:
            self._say("starting Postgres")
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await self._parts["postgres"].until_up()
            await asyncio.to_thread(EmbeddedPostgres(self._layout).create_database)
        self._say("migrating the database")
        url = settings.database_url
        applied = await migrate(url.get_secret_value() if url else "")
        log.info("migrated", applied=applied)

    async def _demo_account(self, settings: Settings) -> None:
        password = secret.ensure(self._layout.secrets)["demo_password"]
        database = Database.from_settings(settings, application="supervisor", pool_max=2)
        async with database:
            await demo_account.ensure(database, password)

    async def _prepare_temporal(self, settings: Settings) -> Client:
        self._say("starting Temporal" if "temporal" in self._parts else "reaching Temporal")
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while True:
                try:
                    client = await connect(settings)
                    changed = await apply(client, read_configuration(settings))
                except (RuntimeError, RPCError):  # how the SDK says that the server isn't there yet
                    await asyncio.sleep(_RETRY_S)
                else:
                    log.info("temporal_applied", changed=[change.what for change in changed])
                    return client

    async def _sweep(self, settings: Settings, client: Client) -> None:
        """Mend what a lost, restored or meddled-with Temporal database left, before anything new is admitted."""
        self._say("comparing what is held with what runs")
        own = self._operators.database_url is None and self._operators.temporal_address is None
        order = SweepOrder(actor="start")
        if own:  # nothing runs yet that could be in the middle of an admission
            order = order.model_copy(update={"young_s": 0.0})
        async with (
            Database.from_settings(settings, application="supervisor", pool_max=2) as database,
            asyncio.timeout(PATIENCE.total_seconds()),
        ):
            while True:
                try:
                    found = await sweep(database, client, order)
                except (TemporalSilentError, DatabaseTrouble) as error:
                    log.warning("sweep_repeated", reason=str(error))
                    await asyncio.sleep(_RETRY_S)
                else:
                    log.info("swept", looked_at=found.looked_at, findings=len(found.findings) + found.more)
                    return

    async def _adopt_stranded(self, client: Client, build: str) -> None:
        """One build runs here at a time, so what another one began goes on under this one, or would never end."""
        for workflow_id in await deployment.stranded(client, build):
            if await deployment.move(client, workflow_id, build):
                log.warning("generation_moved_to_this_build", task_id=workflow_id, build=build)

    async def _go_down(self) -> None:
        self._ready = False
        order = [self._parts[name] for name in plan.STOP_ORDER if name in self._parts]
        for part in order:
            self._say(f"stopping {part.spec.name}")
            await part.stop()
            if part.spec.name == "hostagent":
                await asyncio.to_thread(stop_engines, self._layout.home)
        self._say("down")

    def _start(self, spec: PartSpec) -> None:
        part = Part(spec, log_file=self._layout.logs / f"{spec.name}.log", changed=self._tell)
        self._parts[spec.name] = part
        part.start()

    def _end_orphans(self) -> None:
        left = state.read(self._state_file)
        by_name = {part.name: part for part in left.parts} if left else {}
        for name in plan.STOP_ORDER:
            if name in by_name and end_orphan(by_name[name], patience_s=ORPHAN_S):
                log.warning("orphan_ended", part=name, pid=by_name[name].pid)

    def _say(self, step: str) -> None:
        self._step = step
        log.info("supervisor", step=step)
        self._tell()

    def _tell(self) -> None:
        parts = tuple(part.state for part in self._parts.values())
        if not self._parts and not self._failure and not self._ready and (old := state.read(self._state_file)):
            parts = old.parts  # until orphans are ended, the file is the only word about them
        state.write(
            self._state_file,
            state.StackState(os.getpid(), self._started_at, self._ready, self._step, self._failure, parts),
        )

    @property
    def _state_file(self) -> Path:
        return self._layout.run / "state.json"

    async def _rotate_logs(self) -> None:
        """Keep each log and its predecessor within bounds. Parts append, so cutting the file is safe."""
        while True:
            for path in self._layout.logs.glob("*.log"):
                if path.stat().st_size > LOG_BYTES_MAX:
                    await asyncio.to_thread(path.with_suffix(".log.1").write_bytes, path.read_bytes())
                    os.truncate(path, 0)
            await asyncio.sleep(LOG_LOOK_S)


def main() -> int:
    """Supervise the home that the environment names."""
    settings = Settings()
    configure_logging("supervisor")
    try:
        with sole_supervisor(Layout(settings.home)):
            return asyncio.run(Supervisor(settings).run())
    except BlockingIOError:
        log.error("already_running", home=str(settings.home))  # noqa: TRY400 - the line says it all
        return ALREADY_RUNS


if __name__ == "__main__":
    sys.exit(main())
