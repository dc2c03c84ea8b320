"""The host agent as a process, with the real engine and a real server: killed, replaced, and left alone."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from temporalio.client import ActivityHandle, Client
from temporalio.common import RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from infra.engines.native.identity import holder
from infra.engines.native.process import stop_engines
from infra.gpu.cpu import CpuInventory
from tests.support.eventually import eventually
from tests.support.internal_api import SIGNER, TOKEN, InternalApi, order
from tests.support.pictures import png
from workers.reporting import CLEAN_SLATE
from workflows.contracts import ids, timeouts
from workflows.contracts.generation import RunOutcome
from workflows.contracts.hosts import CardReport, HostReport
from workflows.contracts.states import RunVerdict

pytestmark = pytest.mark.slow
SIDE = 640
"""16 tiles: some seconds on a busy core."""


@pytest.fixture
def api() -> Iterator[tuple[InternalApi, str]]:
    """The internal endpoint on a port of its own."""
    api = InternalApi(png(SIDE, SIDE), width=SIDE, height=SIDE)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = dict(self.headers.items())
            answer = api.handle(
                httpx.Request(self.command, f"http://api{self.path}", headers=headers, content=body)
            )
            content = answer.read()
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield api, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def temporal() -> AsyncIterator[Client]:
    """A server of its own, with the namespace that settings name."""
    environment = await WorkflowEnvironment.start_local(
        namespace="holdfast",
        dev_server_existing_path=str(Path(sys.executable).with_name("temporal")),
        data_converter=pydantic_data_converter,
        ui=False,
    )
    async with environment:
        yield environment.client


class Host:
    """A home folder whose agent is started and ended."""

    def __init__(self, home: Path, api: tuple[InternalApi, str], temporal: Client) -> None:
        """Start nothing."""
        self.home = home
        self.api, self._address = api
        self._temporal = temporal
        self.cards = [card.uuid for card in CpuInventory(home, count=2).cards()]
        self.card = self.cards[0]
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self, *, cpu_cards: int = 1) -> None:
        """Start an agent."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")} | {
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_TEMPORAL_ADDRESS": self._temporal.service_client.config.target_host,
            "HOLDFAST_API_INTERNAL_URL": self._address,
            "HOLDFAST_HOST_TOKEN": TOKEN,
            "HOLDFAST_ORDER_PUBLIC_KEYS": SIGNER.public_key,
            "HOLDFAST_CPU_THREADS": "1",
            "HOLDFAST_CPU_CARDS": str(cpu_cards),
        }
        with (self.home / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [sys.executable, "-m", "workers.hostagent"], env=environment, stdout=log, stderr=log
            )

    async def end(self, number: signal.Signals) -> int:
        """Signal the agent and wait for its end."""
        assert self.agent is not None
        self.agent.send_signal(number)
        return await asyncio.to_thread(self.agent.wait, 30)

    def card_report(self, card: str | None = None) -> CardReport | None:
        """What was last said of the card."""
        if not self.api.reports:
            return None
        cards = HostReport.model_validate(self.api.reports[-1]).cards
        return next((said for said in cards if said.card_uuid == (card or self.card)), None)

    async def until_ready(self, card: str | None = None) -> None:
        """Until the card offers its engine."""
        await eventually(
            lambda: (report := self.card_report(card)) is not None and report.capabilities == ("image_upscale",),
            within=40,
            what="a ready card",
        )

    async def begin(self, card: str | None = None) -> ActivityHandle[RunOutcome]:
        """A run at work."""
        card = card or self.card
        handle = await self._temporal.start_activity(
            "run_on_card",
            order(card=card),
            id=f"run-{card}",
            result_type=RunOutcome,
            task_queue=ids.card_queue(card),
            start_to_close_timeout=timedelta(minutes=2),
            heartbeat_timeout=timeouts.HEARTBEAT,
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_attempts=5),
        )
        await eventually(
            lambda: (
                (report := self.card_report(card)) is not None
                and report.running is not None
                and report.running.fraction > 0.05
            ),
            within=60,
            what="progress",
        )
        return handle

    async def outcome(self, handle: ActivityHandle[RunOutcome]) -> RunOutcome:
        """How it ended."""
        async with asyncio.timeout(90):
            return await handle.result()


@pytest.fixture
async def host(tmp_path: Path, api: tuple[InternalApi, str], temporal: Client) -> AsyncIterator[Host]:
    host = Host(tmp_path, api, temporal)
    host.start()
    try:
        await host.until_ready()
        yield host
    finally:
        if host.agent is not None:
            host.agent.kill()
            await asyncio.to_thread(host.agent.wait)
        await asyncio.to_thread(stop_engines, tmp_path)


async def test_a_killed_agents_run_is_found_by_the_next_and_not_repeated(host: Host) -> None:
    handle = await host.begin()
    await host.end(signal.SIGKILL)
    host.start()
    outcome = await host.outcome(handle)
    assert outcome.verdict is RunVerdict.FINISHED
    assert len(host.api.orders) == 1
    assert list(host.api.stored) == [outcome.files[0].sha256]
    boots = {report["cards"][0]["boot_id"] for report in host.api.reports}  # type: ignore[index]  # plain JSON
    assert len(boots) == 2


async def test_a_restarted_agent_hands_its_run_over(host: Host) -> None:
    handle = await host.begin()
    engine = holder(host.home / "engines" / host.card)
    assert await host.end(signal.SIGTERM) == 0
    assert holder(host.home / "engines" / host.card) == engine is not None
    host.start()
    assert (await host.outcome(handle)).verdict is RunVerdict.FINISHED
    assert len(host.api.orders) == 1


async def test_a_killed_engine_costs_one_more_run(host: Host) -> None:
    handle = await host.begin()
    engine = holder(host.home / "engines" / host.card)
    assert engine is not None
    os.kill(engine, signal.SIGKILL)
    assert (await host.outcome(handle)).verdict is RunVerdict.FINISHED
    assert len(host.api.orders) == 2


async def test_cards_of_one_host_share_nothing(host: Host) -> None:
    """The same task under the same fence on both, as after it was placed again: each runs it in its own engine."""
    await host.end(signal.SIGTERM)
    host.start(cpu_cards=2)
    for card in host.cards:
        await host.until_ready(card)
    first, second = await asyncio.gather(*(host.begin(card) for card in host.cards))
    engines = [holder(host.home / "engines" / card) for card in host.cards]
    assert None not in engines
    assert engines[0] != engines[1]
    assert [report.running is not None for card in host.cards if (report := host.card_report(card))] == [
        True,
        True,
    ]
    os.kill(engines[1] or 0, signal.SIGKILL)
    assert (await host.outcome(first)).verdict is RunVerdict.FINISHED
    assert (await host.outcome(second)).verdict is RunVerdict.FINISHED
    asked = [str(taken["card_uuid"]) for taken in host.api.orders]
    assert sorted(asked) == sorted([host.cards[0], host.cards[1], host.cards[1]]), "only the dead one ran again"


async def test_a_killed_agent_of_two_cards_finds_both_runs(host: Host) -> None:
    await host.end(signal.SIGTERM)
    host.start(cpu_cards=2)
    for card in host.cards:
        await host.until_ready(card)
    handles = [await host.begin(card) for card in host.cards]
    await host.end(signal.SIGKILL)
    host.start(cpu_cards=2)
    for handle in handles:
        assert (await host.outcome(handle)).verdict is RunVerdict.FINISHED
    assert len(host.api.orders) == len(host.cards)
    await eventually(
        lambda: all((said := host.card_report(c)) and said.settled_fence == 1 for c in host.cards),
        what="two settled cards",
    )


async def test_a_cancel_reaches_the_engine(host: Host) -> None:
    handle = await host.begin()
    await handle.cancel()
    assert (await host.outcome(handle)).verdict is RunVerdict.CANCELED
    await eventually(
        lambda: (said := host.card_report()) is not None and said.running is None and said.settled_fence == 1,
        what="an idle card",
    )


async def test_an_agent_that_finds_nothing_open_frees_its_card(host: Host) -> None:
    """With the journal went the fence that it was to say is over; the database remembers that it was fetched."""
    await host.until_ready()
    await host.end(signal.SIGKILL)
    for file in (host.home / "host").glob("journal.db*"):
        file.unlink()
    seen = len(host.api.reports)
    host.start()
    await eventually(
        lambda: any(
            card.settled_fence == CLEAN_SLATE
            for report in host.api.reports[seen:]
            for card in HostReport.model_validate(report).cards
        ),
        within=40,
        what="a clean slate",
    )


async def test_an_api_that_goes_away_and_returns_costs_nothing(host: Host) -> None:
    handle = await host.begin()
    host.api.away = True
    seen = len(host.api.reports)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(handle.result()), 3)
    host.api.away = False
    assert (await host.outcome(handle)).verdict is RunVerdict.FINISHED
    await eventually(lambda: len(host.api.reports) > seen, what="reports again")
    assert host.agent is not None
    assert host.agent.poll() is None


def test_the_agent_has_no_database_driver() -> None:
    """A host holds no database credentials, and has no use for the driver."""
    program = "import sys, workers.hostagent; print(*{m.split('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"psycopg", "fastapi", "obstore", "ncnn", "PIL"} & set(run.stdout.split()) == set()
