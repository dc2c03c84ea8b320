"""Which parts the stack has, given what the operator set elsewhere, and how each is run."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import httpx

from infra.local import temporal as temporal_server
from infra.local.layout import Layout
from infra.local.ports import Ports
from infra.local.postgres import ENVIRONMENT, EmbeddedPostgres
from infra.local.stack import as_environment
from infra.settings import Settings
from infra.temporal.configuration import read_configuration
from workers.supervisor.part import PartSpec

ASKED_FIRST = ("orchestrator", "api")
ASKED_LATER = ("hostagent", "media")
"""Starting one of ours takes about 2.5 s of a core, all of it imports. Who answers callers gets the cores first;
cards come 2 s later and have their canaries to pass anyway."""
STOP_ORDER = ("api", "hostagent", "orchestrator", "media", "temporal", "postgres")
"""Who takes requests stops first; who remembers stops last."""
WORKER_STOP_S = 40.0
"""Longer than any worker's own drain, so that force is for the stuck only."""
_ASK_S = 1.0
_SIGNING_KEYS = ("HOLDFAST_RECEIPT_KEY", "HOLDFAST_ORDER_KEY")
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - recognised, not bound
_ARENAS = "2"
"""glibc gives each thread an arena of its own; two keep a Python process of ours about 30 MiB smaller."""


def postgres(layout: Layout) -> PartSpec:
    """The embedded database. Its log goes with the others'."""
    server = EmbeddedPostgres(layout)
    return PartSpec(
        name="postgres",
        argv=server.argv(),
        environment=ENVIRONMENT,
        answers=lambda: asyncio.to_thread(server.answers),
        user=server.user,
        group=server.group,
        stop_signal=signal.SIGINT,  # fast shutdown: open sessions are rolled back, data are flushed
    )


def temporal(settings: Settings, layout: Layout, ports: Ports) -> PartSpec:
    """The embedded Temporal server with its Web UI."""
    return PartSpec(
        name="temporal",
        argv=temporal_server.argv(layout, ports, read_configuration(settings)),
        environment={"PATH": os.environ.get("PATH", ""), "HOME": str(layout.temporal)},
        answers=_listens(ports.temporal),
    )


def worker(name: str, settings: Settings) -> PartSpec:
    """One of our own processes."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    environment |= as_environment(settings)
    if name != "api":
        for key in _SIGNING_KEYS:
            environment.pop(key, None)  # who signs receipts and orders is one process
    environment |= {"MALLOC_ARENA_MAX": _ARENAS, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    listens = "127.0.0.1" if settings.api_host in _EVERYWHERE else settings.api_host
    answers = _lives(f"http://{listens}:{settings.api_port}/live") if name == "api" else _at_once
    return PartSpec(
        name=name,
        argv=[sys.executable, "-m", f"workers.{name}"],
        environment=environment,
        answers=answers,
        stop_s=WORKER_STOP_S,
    )


def _listens(port: int) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        try:
            async with asyncio.timeout(_ASK_S):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    return answers


def _lives(url: str) -> Callable[[], Awaitable[bool]]:
    async def answers() -> bool:
        try:
            async with httpx.AsyncClient(timeout=_ASK_S, trust_env=False) as client:
                return (await client.get(url)).is_success
        except httpx.HTTPError:
            return False

    return answers


async def _at_once() -> bool:
    """A worker is up when it runs: it waits for whatever is away by itself."""
    return True
