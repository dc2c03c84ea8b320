"""A served API on a real socket and a real database, with accounts, a ready model and stand-in workflows."""

import asyncio
import contextlib
import hashlib
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import uvicorn

from api.app import create_app
from api.core.gateway import Generations
from api.parts import Parts
from api.wire import Wire
from infra import accounts, fleet, generations, leases, ledger
from infra.accounts import Role
from infra.catalog import Catalog
from infra.db import Database, Query
from infra.orders import OrderKeys
from infra.settings import Settings
from infra.signatures.keys import public_half
from tests.support.eventually import eventually
from tests.support.inprocess import InProcessGenerations
from tests.support.pictures import png
from workflows.contracts import generation as g
from workflows.contracts import ids
from workflows.contracts.failures import Code, Failure
from workflows.contracts.hosts import CardReport, HostReport, OrderRequest
from workflows.contracts.media import Artifact, BlobRef, RefusedOutput
from workflows.contracts.states import Status
from workflows.domain.delivery import charge
from workflows.domain.plan import ImageFacts, Plan, input_image, plan

CANVAS = "/api/proxy/v1"
MODEL = "image-upscale"
PASSWORD = "correct horse battery staple"
CARD = "cpu-test-0"
BOOT = "boot-1"
HOST_TOKEN = "host-token-of-tests"
RECEIPT_KEY = "A" * 43
ORDER_KEY = "b3JkZXJzLW9mLXRlc3RzLWFyZS1zaWduZWQtYnktaXQ"
ORDER_KEYS = OrderKeys((public_half(ORDER_KEY),))
"""Thirty-two zero bytes."""


@dataclass(frozen=True, slots=True)
class User:
    """A member with a session."""

    account_id: str
    member_id: str
    email: str
    token: str

    def headers(self, operation_id: str | None = None) -> dict[str, str]:
        """Of an authenticated request."""
        found = {"Authorization": f"Bearer {self.token}"}
        return found | ({"X-IC-Operation-ID": operation_id} if operation_id else {})


@dataclass(slots=True)
class World:
    """What a test holds in its hands."""

    client: httpx.AsyncClient
    parts: Parts
    database: Database
    workflows: InProcessGenerations

    async def user(
        self, name: str = "ada", *, balance: int = 1_000, account: str | None = None, role: Role = Role.OWNER
    ) -> User:
        """A member of an account that has so many credits; of an account made before when it is named."""
        account_id = account or f"acc_{name}"
        async with self.database.transaction() as tx:
            if account is None:
                await ledger.open_account(
                    tx, account_id=account_id, kind=ledger.AccountKind.ORGANISATION, name=name
                )
                if balance:
                    await ledger.grant(
                        tx,
                        account_id=account_id,
                        credits=balance,
                        reason="test",
                        actor="test",
                        key=f"grant-{name}",
                    )
            member = await accounts.create_member(
                tx, account_id=account_id, email=f"{name}@example.org", password=PASSWORD, role=role
            )
        token = self.parts.sessions.issue(member.id)
        return User(account_id, member.id, member.email, token)

    async def balance(self, user: User) -> ledger.Balance:
        """Available, held, spent."""
        async with self.database.read() as reader:
            return await ledger.balance(reader, user.account_id)

    async def report_card(self, *, boot_id: str = BOOT) -> None:
        """An idle card of a CPU reports."""
        card = CardReport(
            card_uuid=CARD,
            label="cpu-0",
            gpu_model="CPU",
            vram_total_mib=4096,
            vram_free_mib=4096,
            engines=("native",),
            capabilities=("image_upscale",),
            boot_id=boot_id,
            settled_fence=1_000_000,
        )
        async with self.database.transaction() as tx:
            await leases.record_report(tx, HostReport(host="test", cards=(card,)))

    async def cordon(self) -> None:
        """Keep the card alive, but let it take no work: what is admitted then waits."""
        async with self.database.transaction() as tx:
            await fleet.cordon(tx, CARD, cordoned=True, reason="a test", actor="test")

    async def uncordon(self) -> None:
        """Let the card take work: what is admitted next is placed at once."""
        async with self.database.transaction() as tx:
            await fleet.cordon(tx, CARD, cordoned=False, reason="a test", actor="test")
        await self.report_card()

    async def forget_card(self) -> None:
        """Another agent took the card over; what passed its canary under the old one no longer counts."""
        await self.report_card(boot_id="boot-2")
        entry = self.parts.catalog.entries[MODEL]
        await self.parts.readiness.ready(entry, refresh=True)

    async def make_ready(self, model: str = MODEL) -> None:
        """Pass a canary, with the same steps as a real one."""
        await self.report_card()
        entry = self.parts.catalog.entries[model]
        facts = ImageFacts("image/png", 100, 32, 32, 1, has_alpha=False)
        planned = plan(entry.manifest, digest=entry.digest, mode=None, parameters={"scale": 2}, inputs=[facts])
        assert isinstance(planned, Plan)
        now = datetime.now(UTC)
        async with self.database.transaction() as tx:
            await ledger.grant(tx, account_id="house", credits=100, reason="test", actor="test", key="house")
        request = g.GenerationRequest(
            task_id=ids.task_id("house", f"canary-{model}"),
            account_id="house",
            operation_id=f"canary-{model}",
            fingerprint="0" * 64,
            fields={},
            attempt=1,
            model=planned.snapshot,
            parameters=planned.parameters,
            inputs=(input_image(facts, "c" * 64),),
            outputs=planned.outputs,
            price_credits=planned.price_credits,
            price=planned.price,
            created_at=now,
            admit_by=now + timedelta(seconds=3),
            expires_at=now + timedelta(minutes=1),
            is_canary=True,
        )
        async with self.database.transaction() as tx:
            admission = await generations.admit(tx, request)
        assert admission.lease is not None
        order = OrderRequest(
            task_id=request.task_id,
            lease_id=admission.lease.lease_id,
            card_uuid=CARD,
            fence=admission.lease.fence,
            boot_id=BOOT,
        )
        async with self.database.transaction() as tx:
            await leases.open_order(tx, order)
        async with self.database.transaction() as tx:
            await generations.settle(
                tx, g.Settle(task_id=request.task_id, credits=planned.price_credits, lease_id=None, actor="test")
            )

    async def create(
        self, user: User, operation_id: str, picture: bytes | None = None, **fields: str
    ) -> httpx.Response:
        """`POST /images/edits/tasks` with a PNG."""
        return await self.post_edit(
            user, operation_id, files=[("image", ("in.png", picture or png(), "image/png"))], **fields
        )

    async def post_edit(
        self,
        user: User,
        operation_id: str | None,
        *,
        files: list[tuple[str, tuple[str, bytes, str]]],
        path: str = "/images/edits/tasks",
        **fields: str,
    ) -> httpx.Response:
        """Any edit."""
        data = {"model": MODEL, "scale": "2"} | fields
        return await self.client.post(CANVAS + path, headers=user.headers(operation_id), data=data, files=files)

    async def keep(self, user: User, task_id: str, content: bytes) -> None:
        """Store these bytes and record them as the result; no credit moves."""
        record = await self.record(user, task_id)
        contract = record.request.outputs[0]
        blob = await self.put(content)
        artifact = Artifact(index=0, role="image", blob=blob, width=contract.width, height=contract.height)
        async with self.database.transaction() as tx:
            await generations.keep(
                tx, g.KeepOrder(task_id=task_id, account_id=user.account_id, artifacts=(artifact,))
            )

    async def complete(self, user: User, task_id: str, content: bytes | None = None) -> bytes:
        """End a generation well, with these bytes as its result."""
        content = content if content is not None else png(seed=99)
        await self.keep(user, task_id, content)
        price = (await self.record(user, task_id)).price_credits
        async with self.database.transaction() as tx:
            await generations.settle(tx, g.Settle(task_id=task_id, credits=price, lease_id=None, actor="test"))
        return content

    async def complete_partly(
        self, user: User, task_id: str, contents: list[bytes], refused: tuple[RefusedOutput, ...]
    ) -> int:
        """End a generation with some of its outputs, as its workflow would; what was charged."""
        record = await self.record(user, task_id)
        places = [place for place in range(len(record.request.outputs)) if place not in {r.index for r in refused}]
        artifacts = []
        for index, (place, content) in enumerate(zip(places, contents, strict=True)):
            blob, contract = await self.put(content), record.request.outputs[place]
            artifacts.append(
                Artifact(index=index, role="image", blob=blob, width=contract.width, height=contract.height)
            )
        order = g.KeepOrder(
            task_id=task_id, account_id=user.account_id, artifacts=tuple(artifacts), refused=refused
        )
        charged = charge(record.request, places)
        async with self.database.transaction() as tx:
            await generations.keep(tx, order)
        async with self.database.transaction() as tx:
            await generations.settle(tx, g.Settle(task_id=task_id, credits=charged, lease_id=None, actor="test"))
        return charged

    async def put(self, content: bytes) -> BlobRef:
        """Store these bytes."""
        blob = BlobRef(sha256=hashlib.sha256(content).hexdigest(), size=len(content), mime="image/png")
        with tempfile.TemporaryDirectory(dir=self.parts.settings.home) as folder:
            path = Path(folder) / "result"
            path.write_bytes(content)
            await self.parts.store.put_file(path, blob.sha256)
        return blob

    async def expire_artifacts(self) -> None:
        """Let the retention of every result be over."""
        async with self.database.transaction() as tx:
            await tx.run(Query("expire", "update artifact set expires_at = clock_timestamp() - interval '1 s'"))

    async def fail(self, task_id: str, code: Code = Code.UPSTREAM_FAILED, status: Status = Status.FAILED) -> None:
        """End a generation without a result."""
        failure = Failure(code=code, message="The engine failed.")
        async with self.database.transaction() as tx:
            await generations.release(
                tx, g.Release(task_id=task_id, status=status, failure=failure, lease_id=None, actor="test")
            )

    async def record(self, user: User, task_id: str) -> generations.GenerationRecord:
        """As the database has it."""
        async with self.database.read() as reader:
            record = await generations.find(reader, account_id=user.account_id, task_id=task_id)
        assert record is not None
        return record

    def spooled(self) -> list[Path]:
        """Temporary files left."""
        return [path for path in self.parts.spool.folder.rglob("*") if path.name != "lock"]

    async def stored(self) -> set[str]:
        """Digests in the store."""
        return {sha256 async for sha256, _, _ in self.parts.store.stored()}


class _Server(uvicorn.Server):
    """Without signal handlers: the test runner keeps its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


@asynccontextmanager
async def serve(
    settings: Settings, workflows: Generations, *, models: Catalog | None = None
) -> AsyncIterator[tuple[str, Parts]]:
    """The API on a free port; its address and its parts."""
    app = create_app(settings, generations=workflows, models_served=models)
    # With its protocol named asyncio sets TCP_NODELAY; without it each answer waits 40 ms for an acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="on", http=Wire, proxy_headers=False))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started, what="the server's start")
        yield address, app.state.parts
    finally:
        server.should_exit = True
        await task


def settings_for(home: Path, conninfo: str, **changes: object) -> Settings:
    """Of a test's API."""
    return Settings.model_validate(
        {
            "home": home,
            "database_url": conninfo,
            "session_secret": "session-secret-of-tests",
            "signing_secret": "signing-secret-of-tests",
            "host_token": HOST_TOKEN,
            "receipt_key": RECEIPT_KEY,
            "order_key": ORDER_KEY,
            "upload_bytes_max": 2 * 1024 * 1024,
            "sync_wait_s": 3,
            "in_flight_max": 3,
            "duplicate_window_s": 0,  # most tests send one picture again and again
            **changes,
        }
    )
