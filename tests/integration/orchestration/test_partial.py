"""n asked, k valid, through all that is real: host, card, port, store, judge, workflow, ledger, API."""

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.card_desk import CardDesk, Patience
from activities.engine import EngineActivities
from activities.media import MediaActivities
from api.parts import Parts
from infra import leases
from infra.db import Database
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.hosts.client import HostClient
from infra.hosts.journal import Journal
from infra.temporal import generations
from infra.temporal.deployment import build_id, promote
from tests.contract.world import HOST_TOKEN, ORDER_KEYS, serve, settings_for
from tests.flows.server import start_server
from tests.support.catalogs import VARIANTS, with_variants
from tests.support.generations import Ways, report
from tests.support.inprocess import InProcessGenerations
from tests.support.pictures import png
from workers.orchestrator import build_worker
from workflows.contracts import generation as g
from workflows.contracts import ids, queues, timeouts
from workflows.contracts.failures import Code
from workflows.contracts.states import CreditStatus, Status
from workflows.domain.plan import ImageFacts, Plan, input_image, plan

CARD = "cpu-a-0"
EACH = 2 + 3 + 1
PICTURE = png(40, 32)
API = "http://holdfast.test"


class Nearby(httpx.AsyncHTTPTransport):
    """Reaches the API under the name that its signed addresses carry: its port is known only once it serves."""

    def __init__(self, address: str) -> None:
        """`address` is where it serves."""
        super().__init__()
        self._url = httpx.URL(address)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host=self._url.host, port=self._url.port)
        return await super().handle_async_request(request)


@dataclass
class Line:
    """Everything between a request and its end."""

    client: Client
    parts: Parts
    engine: FakeEngine
    ways: Ways

    async def end(self, script: Script, asked: int) -> tuple[g.GenerationRequest, g.GenerationResult]:
        """Ask for so many pictures of an engine that behaves so, and wait for the end."""
        self.engine.plays(script)
        request = self.request(await self.ways.account(), asked)
        admission = await generations.admit(self.client, request)
        assert admission.lease is not None, admission
        handle = self.client.get_workflow_handle(request.task_id, result_type=g.GenerationResult)
        async with asyncio.timeout(60):
            return request, await handle.result()

    def request(self, account: str, asked: int) -> g.GenerationRequest:
        """As the API would make it."""
        entry = self.parts.catalog.entries[VARIANTS]
        facts = ImageFacts("image/png", len(PICTURE), 40, 32, 1, has_alpha=False)
        fields: dict[str, g.Parameter] = {"scale": 2, "n": asked}
        planned = plan(entry.manifest, digest=entry.digest, mode=None, parameters=fields, inputs=[facts])
        assert isinstance(planned, Plan)
        now = datetime.now(UTC)
        operation = uuid.uuid4().hex
        return g.GenerationRequest(
            task_id=ids.task_id(account, operation),
            account_id=account,
            operation_id=operation,
            fingerprint="f" * 64,
            fields={},
            attempt=1,
            model=planned.snapshot.model_copy(update={"engine": "native"}),
            parameters=planned.parameters,
            inputs=(input_image(facts, hashlib.sha256(PICTURE).hexdigest()),),
            outputs=planned.outputs,
            price_credits=planned.price_credits,
            price=planned.price,
            created_at=now,
            admit_by=now + timedelta(seconds=30),
            expires_at=now + timedelta(minutes=5),
        )


@pytest.fixture
async def line(database: Database, conninfo: str, tmp_path: Path, ways: Ways) -> AsyncIterator[Line]:
    settings = settings_for(tmp_path, conninfo, api_internal_url=API)
    async with contextlib.AsyncExitStack() as stack:
        client = (await stack.enter_async_context(await start_server())).client
        address, parts = await stack.enter_async_context(
            serve(settings, InProcessGenerations(database), models=with_variants(tmp_path))
        )
        picture = tmp_path / "picture.png"
        picture.write_bytes(PICTURE)
        await parts.store.put_file(picture, hashlib.sha256(PICTURE).hexdigest())
        journal, engine, owned = Journal(tmp_path / "journal.db"), FakeEngine(), asyncio.Event()
        stack.callback(journal.close)

        host = HostClient(API, HOST_TOKEN, keys=ORDER_KEYS, transport=Nearby(address))
        stack.push_async_callback(host.close)

        async def tell() -> None:
            async with database.transaction() as tx:
                await leases.record_report(tx, report(CARD, settled_fence=journal.settled_fence(CARD)))
            owned.set()

        async def keep_telling() -> None:
            while True:
                await tell()
                await asyncio.sleep(timeouts.BEAT.total_seconds())  # a host's own pace

        await tell()
        desk = CardDesk(
            card_uuid=CARD,
            boot_id="boot-1",
            keeper=engine,
            journal=journal,
            client=host,
            folder=tmp_path / "runs",
            owned=owned,
            tell=tell,
            patience=Patience(api_s=5, transfer_s=5),
        )
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        media = MediaActivities(database=database, store=parts.store, decoder=parts.decoder, scratch=scratch)
        card = Worker(
            client,
            task_queue=ids.card_queue(CARD),
            activities=EngineActivities(desk).all(),
            max_concurrent_activities=1,
        )
        judge = Worker(client, task_queue=queues.MEDIA, activities=media.all())
        for worker in (build_worker(client, settings, database), judge, card):
            await stack.enter_async_context(worker)
        await promote(client, build_id(), patience=timeouts.CARD_PICKUP)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keep_telling()), group.create_task(engine.keep())]
            yield Line(client, parts, engine, ways)
            for task in running:
                task.cancel()


@pytest.mark.parametrize(
    ("script", "asked", "delivered", "codes"),
    [
        (Script.GOOD, 3, 3, {}),
        (Script.SURPLUS, 2, 2, {}),
        (Script.LACK_FIRST, 3, 2, {0: Code.MEDIA_VALIDATION_FAILED}),
        (Script.BLACK_LAST, 4, 3, {3: Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE}),
        (Script.MIXED, 4, 2, {0: Code.MEDIA_VALIDATION_FAILED, 3: Code.MEDIA_VALIDATION_FAILED}),
    ],
)
async def test_the_good_ones_are_delivered_and_paid_and_the_rest_goes_back(
    line: Line, script: Script, asked: int, delivered: int, codes: dict[int, Code]
) -> None:
    request, result = await line.end(script, asked)
    paid = delivered * EACH

    assert (result.status, result.credit_status) == (Status.COMPLETED, CreditStatus.SETTLED)
    assert (result.charged_credits, len(result.artifacts)) == (paid, delivered)
    record = await line.ways.record(request)
    assert (record.price_credits, record.charged_credits) == (asked * EACH, paid)
    assert [artifact.index for artifact in record.artifacts] == list(range(delivered))
    assert {one.index: one.code for one in record.refused} == codes
    assert record.partial == result.partial
    assert (record.partial is None) == (not codes)
    assert await line.ways.balance(request.account_id) == (100 - paid, 0, paid)
    for artifact in record.artifacts:
        assert await line.parts.store.head(artifact.sha256) == artifact.size
    assert await line.ways.breaches() == []


@pytest.mark.parametrize(("script", "asked"), [(Script.BLACK, 3), (Script.MIXED, 1), (Script.TRUNCATED, 2)])
async def test_none_good_costs_nothing(line: Line, script: Script, asked: int) -> None:
    request, result = await line.end(script, asked)

    assert (result.status, result.credit_status) == (Status.FAILED, CreditStatus.RELEASED)
    assert (result.charged_credits, result.partial) == (0, None)
    record = await line.ways.record(request)
    assert record.failure is not None
    assert record.artifacts == ()
    assert await line.ways.balance(request.account_id) == (100, 0, 0)
    assert await line.ways.breaches() == []
