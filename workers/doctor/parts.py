"""The parts of a running installation, whoever runs them: database, Temporal, store, API, cards, clocks."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
from temporalio.service import RPCError

from infra import leases
from infra.db import Database, DatabaseTrouble, conninfo_of
from infra.db.clock import server_time
from infra.db.migrate import pending
from infra.settings import Settings
from infra.storage.store import BlobStore, StoreAwayError
from infra.temporal import deployment
from infra.temporal.apply import differences
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from workers.doctor.check import Check, right, wrong
from workers.supervisor.state import StackState
from workflows.domain.placement.fleet import Standing

PATIENCE_S = 10.0
"""For each check. A part that takes longer is away as far as callers are concerned."""
CLOCKS_APART_MAX = timedelta(seconds=2)
"""Admissions are refused three seconds after the API's clock began them, by the database's clock."""
_DATE_STEP = timedelta(seconds=1)
"""A Date header tells whole seconds, and may be a second old."""
_PROBE_BYTES = 32


async def examine(settings: Settings) -> list[Check]:
    """All of it, side by side, in a fixed order."""
    checks: dict[str, Callable[[Settings], Awaitable[list[Check]]]] = {
        "database": database,
        "temporal": temporal,
        "store": store,
        "api": api,
        "cards": cards,
        "clocks": clocks,
    }
    found = await asyncio.gather(*(_bounded(name, check(settings)) for name, check in checks.items()))
    return [check for some in found for check in some]


def stack(state: StackState | None) -> Check:
    """The embedded stack's supervisor has all its parts up."""
    if state is None:
        return wrong("stack", "not running", "Start it: holdfast up --detach")
    down = [f"{part.name} is {part.condition} ({part.note})" for part in state.parts if part.condition != "up"]
    if down or not state.ready:
        return wrong("stack", "; ".join(down) or state.step, "See why: holdfast status, holdfast logs")
    return right("stack", f"supervised by process {state.pid}, {len(state.parts)} parts up")


async def database(settings: Settings) -> list[Check]:
    """Postgres answers, and has the schema of this code."""
    try:
        missing = await pending(conninfo_of(settings))
    except DatabaseTrouble as error:
        return [wrong("database", str(error), "Is it up, and HOLDFAST_DATABASE_URL right? holdfast logs postgres")]
    if missing:
        return [wrong("database", f"migrations not applied: {', '.join(missing)}", "holdfast down; holdfast up")]
    return [right("database", "reached, all migrations applied")]


async def temporal(settings: Settings) -> list[Check]:
    """Temporal answers, is what temporal.yaml says, and starts generations on this build."""
    try:
        client = await connect(settings)
        differing = await differences(client, read_configuration(settings))
        current = await deployment.current_version(client)
    except (RuntimeError, RPCError) as error:  # how the SDK says that no server is there
        cure = "Is it up, and HOLDFAST_TEMPORAL_ADDRESS right? holdfast logs temporal"
        return [wrong("temporal", f"{settings.temporal_address}: {error}", cure)]
    found = [right("temporal", f"reached at {settings.temporal_address}")]
    if differing:
        words = "; ".join(f"{one.what}: {one.server}, not {one.file}" for one in differing)
        found.append(wrong("temporal.yaml", words, "holdfast temporal apply"))
    else:
        found.append(right("temporal.yaml", "the server is what it says"))
    build = deployment.build_id()
    if current != build:
        words = f"new generations start on {current or 'no version'}, this code is {build}"
        found.append(
            wrong("version", words, "Start an orchestrator of this code, then: holdfast temporal promote")
        )
    else:
        found.append(right("version", f"new generations start on {build}"))
    return found


async def store(settings: Settings) -> list[Check]:
    """A blob can be put, seen and removed."""
    bytes_ = os.urandom(_PROBE_BYTES)
    digest = hashlib.sha256(bytes_).hexdigest()
    where = settings.object_store_url or str(settings.home / "store")
    try:
        blobs = BlobStore.from_settings(settings)
        with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
            path = Path(folder) / digest
            await asyncio.to_thread(path.write_bytes, bytes_)
            await blobs.put_file(path, digest)
        size = await blobs.head(digest)
        await blobs.delete(digest)
    except (StoreAwayError, OSError, ValueError) as error:
        words = f"{where}: {error.__cause__ or error}"
        return [wrong("store", words, "Is HOLDFAST_OBJECT_STORE_URL right, and writable with these credentials?")]
    if size != _PROBE_BYTES:
        return [wrong("store", f"{where} gave back {size} of {_PROBE_BYTES} bytes", "Is another bucket meant?")]
    return [right("store", f"writable at {where}")]


async def api(settings: Settings) -> list[Check]:
    """The API lives, and says that it can generate."""
    try:
        async with httpx.AsyncClient(base_url=settings.public_url, trust_env=False) as client:
            live = await client.get("/live")
            ready = await client.get("/ready")
    except httpx.HTTPError as error:
        words = f"{settings.public_url}: {str(error) or type(error).__name__}"
        return [wrong("api", words, "Is it up, and HOLDFAST_API_PUBLIC_URL right? holdfast logs api")]
    found = [_answered("api live", live, "holdfast logs api")]
    if ready.is_success:
        return [*found, right("api ready", "can generate")]
    try:
        missing = ", ".join(ready.json()["missing"])
    except (ValueError, KeyError, TypeError):
        missing = f"answered {ready.status_code}"
    return [
        *found,
        wrong("api ready", missing, "A canary takes seconds after a start; then: holdfast logs hostagent"),
    ]


async def cards(settings: Settings) -> list[Check]:
    """At least one card's host reports."""
    try:
        async with _database(settings) as opened, opened.read() as reader:
            known, waiting = await leases.snapshot(reader)
    except DatabaseTrouble as error:
        return [wrong("cards", f"can't be read: {error}", "See the line on the database")]
    fresh = [row.card for row in known if not row.silent]
    stale = [row.card.label for row in known if row.silent]
    words = f"{len(fresh)} of {len(known)} report, {len(waiting)} generations wait"
    if not fresh:
        return [wrong("cards", words, "Start a host agent; if it runs: holdfast logs hostagent")]
    if all(card.standing is not Standing.OPEN for card in fresh):
        return [wrong("cards", f"{words}; all are cordoned or in quarantine", "Uncordon one; see holdfast cards")]
    return [right("cards", words + (f"; silent: {', '.join(stale)}" if stale else ""))]


async def clocks(settings: Settings) -> list[Check]:
    """The clocks of this machine, the database and the API agree."""
    apart: dict[str, timedelta] = {}
    try:
        async with _database(settings) as opened, opened.read() as reader:
            apart["database"] = abs(datetime.now(UTC) - await server_time(reader))
        async with httpx.AsyncClient(base_url=settings.public_url, trust_env=False) as client:
            said = (await client.get("/live")).headers.get("date")
            if said:
                late = abs(datetime.now(UTC) - parsedate_to_datetime(said))
                apart["API"] = max(timedelta(0), late - _DATE_STEP)
    except (DatabaseTrouble, httpx.HTTPError, ValueError):
        pass  # who is away has a line of its own
    words = ", ".join(f"{name} {by.total_seconds():.1f} s apart" for name, by in apart.items())
    if any(by > CLOCKS_APART_MAX for by in apart.values()):
        return [wrong("clocks", words, "Synchronise them with NTP")]
    return [right("clocks", words or "nobody to compare with")]


def _answered(name: str, answer: httpx.Response, cure: str) -> Check:
    if answer.is_success:
        return right(name, f"answers at {answer.request.url.copy_with(path='/')}")
    return wrong(name, f"answered {answer.status_code}", cure)


def _database(settings: Settings) -> Database:
    return Database.from_settings(settings, application="doctor", pool_max=2)


async def _bounded(name: str, work: Awaitable[list[Check]]) -> list[Check]:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await work
    except TimeoutError:
        return [wrong(name, f"no answer within {PATIENCE_S:.0f} s", "Is something in between that drops packets?")]
