"""Hosts cut off from the real API at each step of a run: whoever lost a lease neither starts nor delivers.

And whoever still has it loses nothing: the run goes on where it was, once.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from activities.card_supply import TryAgain
from api.parts import Parts
from infra import leases
from infra.db import Database, Query
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.hosts.client import HostClient
from infra.hosts.journal import Journal
from tests.contract.world import HOST_TOKEN, ORDER_KEYS, serve, settings_for
from tests.integration.hosts.conftest import QUICK
from tests.support.generations import Ways, report, request
from tests.support.inprocess import InProcessGenerations
from tests.support.pictures import png
from workflows.contracts.generation import (
    AcceptLease,
    GenerationRequest,
    LeaseGrant,
    Requeue,
    RunOrder,
    RunOutcome,
)
from workflows.contracts.media import BlobRef, InputImage
from workflows.contracts.states import RunVerdict, Status
from workflows.domain.placement.fleet import Given

API = "http://holdfast.test"
PICTURE = png(40, 32)
INPUT = BlobRef(sha256=hashlib.sha256(PICTURE).hexdigest(), size=len(PICTURE), mime="image/png")
CARDS = ("cpu-a-0", "cpu-b-0")
STEPS = [
    ("orders", "there"),
    ("orders", "back"),
    ("uploads", "there"),
    ("uploads", "back"),
    ("blobs", "there"),
    ("blobs", "back"),
]
"""Which call is cut, and whether it got there first."""
LATEST = Query(
    "latest_lease",
    "select jsonb_build_object('lease_id', id, 'card_uuid', card_uuid, 'card_label', card_uuid, 'fence', fence,"
    " 'accepted', false) from latest_lease_v1(%(task_id)s)",
)


class Wire(httpx.AsyncHTTPTransport):
    """The way from one host to the API. Once a call meets its cut, nothing gets through until it is mended."""

    def __init__(self, address: str) -> None:
        """Whole at first."""
        super().__init__()
        self._url = httpx.URL(address)
        self.cut: tuple[str, str] | None = None
        self.is_cut = asyncio.Event()

    def mend(self) -> None:
        """Let everything through again."""
        self.cut = None
        self.is_cut.clear()

    async def handle_async_request(self, sent: httpx.Request) -> httpx.Response:
        call, way = self.cut or ("nothing", "")
        meets = f"/{call}" in sent.url.path and (call != "blobs" or sent.method == "PUT")
        if self.is_cut.is_set() or (meets and way == "there"):
            self.is_cut.set()
            raise httpx.ConnectError("cut", request=sent)
        sent.url = sent.url.copy_with(host=self._url.host, port=self._url.port)
        answer = await super().handle_async_request(sent)
        if meets:
            await answer.aread()
            self.is_cut.set()
            raise httpx.ReadError("cut", request=sent)
        return answer


@dataclass
class Agent:
    """An agent of a host, with the card's engine, which outlives it."""

    desk: CardDesk
    wire: Wire
    engine: FakeEngine
    database: Database

    async def tell(self) -> None:
        """A report that is heard, as it comes each second."""
        journal, card = self.desk.journal, self.desk.card_uuid
        said = report(card, boot_id=self.desk.boot_id, settled_fence=journal.settled_fence(card))
        async with self.database.single_statement() as tx:
            await leases.record_report(tx, said)
        self.desk.owned.set()

    async def run(self, task_id: str, lease: LeaseGrant, *, attach_only: bool = False) -> RunOutcome:
        """One try."""
        ordered = RunOrder(
            task_id=task_id,
            lease_id=lease.lease_id,
            card_uuid=lease.card_uuid,
            fence=lease.fence,
            attach_only=attach_only,
        )
        async with asyncio.timeout(20):
            return await CardRun(self.desk, ordered, scheduled_at=time.time()).course()


@dataclass
class Ground:
    """The real API and database, and hosts around it."""

    database: Database
    ways: Ways
    address: str
    folder: Path
    stack: contextlib.AsyncExitStack
    boots: int = 0
    keeping: list[asyncio.Task[None]] = field(default_factory=list)

    async def agent(self, card: str = CARDS[0], engine: FakeEngine | None = None) -> Agent:
        """A new agent of the card; with an engine given, the one that comes after another."""
        self.boots += 1
        if engine is None:
            engine = FakeEngine([Script.GOOD])
            self.keeping.append(asyncio.create_task(engine.keep()))
        wire = Wire(self.address)
        client = HostClient(API, HOST_TOKEN, keys=ORDER_KEYS, transport=wire)
        self.stack.push_async_callback(client.close)
        journal = Journal(self.folder / card / "journal.db")
        self.stack.callback(journal.close)
        desk = CardDesk(
            card_uuid=card,
            boot_id=f"boot-{self.boots}",
            keeper=engine,
            journal=journal,
            client=client,
            folder=self.folder / card / "runs",
            owned=asyncio.Event(),
            tell=_nobody,
            patience=replace(QUICK, api_s=0.2, transfer_s=0.2),
        )
        agent = Agent(desk, wire, engine, self.database)
        await agent.tell()
        return agent

    async def placed(self) -> tuple[GenerationRequest, LeaseGrant]:
        """A generation with a lease."""
        made = request(
            await self.ways.account(), inputs=(InputImage(blob=INPUT, width=40, height=32, has_alpha=False),)
        )
        admitted = await self.ways.admit(made)
        assert admitted.lease is not None
        return made, admitted.lease

    async def moved(self, made: GenerationRequest, lease: LeaseGrant, card: str) -> LeaseGrant:
        """Placed anew on another card, as after proof that nothing ran, or an operator's word for it."""
        async with self.database.single_statement() as tx:
            assert await leases.requeue(tx, Requeue(task_id=made.task_id, lease=lease, never_ran=True))
        async with self.database.single_statement() as tx:
            assert await leases.offer(tx, Given(made.task_id, (card,)))
        async with self.database.read() as reader:
            row = await reader.value(LATEST, task_id=made.task_id)
        newer = LeaseGrant.model_validate(row)
        async with self.database.single_statement() as tx:
            assert await leases.accept(tx, AcceptLease(task_id=made.task_id, lease=newer))
        return newer


async def _nobody() -> None:
    """No reporter."""


@pytest.fixture
async def ground(database: Database, conninfo: str, tmp_path: Path, ways: Ways) -> AsyncIterator[Ground]:
    async with contextlib.AsyncExitStack() as stack:
        settings = settings_for(tmp_path, conninfo, api_internal_url=API)
        address, parts = await stack.enter_async_context(serve(settings, InProcessGenerations(database)))
        await _put(parts, tmp_path)
        ground = Ground(database, ways, address, tmp_path / "hosts", stack)
        yield ground
        for task in ground.keeping:
            task.cancel()
        await asyncio.gather(*ground.keeping, return_exceptions=True)


async def _put(parts: Parts, folder: Path) -> None:
    path = folder / "picture.png"
    path.write_bytes(PICTURE)
    await parts.store.put_file(path, INPUT.sha256)


async def cut_off(agent: Agent, step: tuple[str, str], made: GenerationRequest, lease: LeaseGrant) -> None:
    """A try that is cut off at the step, and given up."""
    agent.wire.cut = step
    with pytest.raises(TryAgain):
        await agent.run(made.task_id, lease)
    assert agent.wire.is_cut.is_set()


@pytest.mark.parametrize("step", STEPS)
async def test_a_host_that_was_cut_off_while_its_work_ended_delivers_nothing(
    ground: Ground, step: tuple[str, str]
) -> None:
    agent = await ground.agent()
    made, lease = await ground.placed()
    await cut_off(agent, step, made, lease)
    started = agent.engine.submitted
    await ground.ways.release(made.task_id, Status.CANCELED)
    agent.wire.mend()
    outcome = await agent.run(made.task_id, lease)
    assert (outcome.verdict, outcome.files) == (RunVerdict.FAILED, ())
    assert outcome.evidence.startswith("stale lease")
    assert agent.engine.submitted == started == (0 if step[0] == "orders" else 1)
    await agent.tell()
    _, newer = await ground.placed()
    assert newer.fence == lease.fence + 1, "its card is free"
    assert await ground.ways.breaches() == []


@pytest.mark.parametrize("step", STEPS)
async def test_a_host_that_was_cut_off_while_its_work_went_elsewhere_delivers_nothing(
    ground: Ground, step: tuple[str, str]
) -> None:
    old = await ground.agent()
    made, lease = await ground.placed()
    new = await ground.agent(CARDS[1])
    await cut_off(old, step, made, lease)
    newer = await ground.moved(made, lease, CARDS[1])
    old.wire.mend()
    stale, delivered = await asyncio.gather(old.run(made.task_id, lease), new.run(made.task_id, newer))
    assert (stale.verdict, stale.files) == (RunVerdict.FAILED, ())
    assert delivered.verdict is RunVerdict.FINISHED
    assert len(delivered.files) == 1
    assert old.engine.submitted == (0 if step[0] == "orders" else 1)
    assert new.engine.submitted == 1
    assert await ground.ways.breaches() == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("restarts", [False, True])
async def test_an_outage_costs_who_has_the_lease_nothing(
    ground: Ground, step: tuple[str, str], restarts: bool
) -> None:
    """Also when the agent is replaced meanwhile."""
    agent = await ground.agent()
    made, lease = await ground.placed()
    await cut_off(agent, step, made, lease)
    if restarts:
        agent = await ground.agent(engine=agent.engine)
    agent.wire.mend()
    outcome = await agent.run(made.task_id, lease)
    assert outcome.verdict is RunVerdict.FINISHED
    assert len(outcome.files) == 1
    assert agent.engine.submitted == 1
    await agent.tell()
    assert await ground.ways.breaches() == []


@pytest.mark.parametrize("step", [None, *STEPS[2:]])
async def test_of_two_agents_of_one_card_the_older_neither_starts_nor_delivers(
    ground: Ground, step: tuple[str, str] | None
) -> None:
    """Its lease is the same: that another agent was heard since is what takes its right away."""
    older = await ground.agent()
    made, lease = await ground.placed()
    if step is not None:
        await cut_off(older, step, made, lease)
    newer = await ground.agent(engine=older.engine)
    older.wire.mend()
    submitted = older.engine.submitted
    with pytest.raises(TryAgain):
        await older.run(made.task_id, lease)
    assert older.engine.submitted == submitted
    outcome = await newer.run(made.task_id, lease)
    assert outcome.verdict is RunVerdict.FINISHED
    assert newer.engine.submitted == 1


async def test_a_lease_whose_card_vanished_is_refused_by_its_old_host_and_looked_for(ground: Ground) -> None:
    """The card was taken out and put into another host: the first one's agent still polls its queue."""
    first = await ground.agent()
    made, lease = await ground.placed()
    other = await ground.agent(engine=FakeEngine([Script.GOOD]))
    with pytest.raises(TryAgain):
        await first.run(made.task_id, lease)
    with pytest.raises(TryAgain):
        await first.run(made.task_id, lease, attach_only=True)
    assert first.engine.submitted == 0
    seen = await other.run(made.task_id, lease, attach_only=True)
    assert (seen.verdict, seen.may_have_run) == (RunVerdict.FAILED, False)
    async with ground.database.single_statement() as tx:
        assert await leases.requeue(tx, Requeue(task_id=made.task_id, lease=lease, never_ran=True))
    assert (await ground.ways.record(made)).queue_ahead == 0
