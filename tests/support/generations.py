"""Requests, reports and short ways through the database for tests of it."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from infra import generations, leases, ledger
from infra.db import Database
from workflows.contracts import ids
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import (
    Admission,
    Closing,
    GenerationRequest,
    KeepOrder,
    LeaseGrant,
    ModelSnapshot,
    Release,
    Settle,
)
from workflows.contracts.hosts import CardReport, HostReport, OrderRequest, Running
from workflows.contracts.media import Artifact, BlobRef, InputImage, MediaContract
from workflows.contracts.states import Status

SNAPSHOT = ModelSnapshot(
    model_id="image-upscale",
    digest="d" * 64,
    capability="image_upscale",
    engine="native",
    mode="fast",
    vram_budget_mib=512,
    run_s_max=900,
    queue_max=200,
    cancellable=True,
    resolve_by_s=86_400,
)


def blob(text: str, mime: str = "image/png") -> BlobRef:
    """A reference to made-up bytes."""
    raw = text.encode()
    return BlobRef(sha256=hashlib.sha256(raw).hexdigest(), size=len(raw), mime=mime)


def request(
    account_id: str,
    operation_id: str | None = None,
    *,
    price: int = 10,
    model: ModelSnapshot = SNAPSHOT,
    **changes: Any,
) -> GenerationRequest:
    """A request that fits; `changes` replace fields."""
    operation_id = operation_id or uuid.uuid4().hex
    now = datetime.now(UTC)
    made = GenerationRequest(
        task_id=ids.task_id(account_id, operation_id),
        account_id=account_id,
        operation_id=operation_id,
        fingerprint="f" * 64,
        fields={"scale": "2"},
        attempt=1,
        model=model,
        parameters={"scale": 2},
        inputs=(InputImage(blob=blob("input"), width=64, height=64, has_alpha=False),),
        outputs=(
            MediaContract(
                role="image", mime="image/png", width=128, height=128, has_alpha=False, bytes_max=100_000
            ),
        ),
        price_credits=price,
        created_at=now,
        admit_by=now + timedelta(seconds=30),
        expires_at=now + timedelta(minutes=30),
    )
    return made.model_copy(update=changes)


def report(
    card_uuid: str = "cpu-a-0",
    *,
    boot_id: str = "boot-1",
    vram_total_mib: int = 4096,
    running: Running | None = None,
    settled_fence: int = 0,
    capabilities: tuple[str, ...] = ("image_upscale",),
    **more: Any,
) -> HostReport:
    """A host's word on one card."""
    card = CardReport(
        card_uuid=card_uuid,
        label=card_uuid.upper(),
        gpu_model="CPU",
        vram_total_mib=vram_total_mib,
        vram_free_mib=vram_total_mib,
        engines=("native",),
        capabilities=capabilities,
        boot_id=boot_id,
        running=running,
        settled_fence=settled_fence,
        **more,
    )
    return HostReport(host="host-a", cards=(card,))


def order(task_id: str, lease: LeaseGrant, *, boot_id: str = "boot-1", attach_only: bool = False) -> OrderRequest:
    """A host's request for the work behind a lease."""
    return OrderRequest(
        task_id=task_id,
        lease_id=lease.lease_id,
        card_uuid=lease.card_uuid,
        fence=lease.fence,
        boot_id=boot_id,
        attach_only=attach_only,
    )


class Ways:
    """Short ways through the database; each call is one transaction, as an activity would make it."""

    def __init__(self, database: Database) -> None:
        """Use this database."""
        self.database = database

    async def account(self, credits_granted: int = 100, kind: ledger.AccountKind = ledger.AccountKind.USER) -> str:
        """A new account with credits."""
        account_id = f"acc-{uuid.uuid4().hex[:12]}"
        async with self.database.transaction() as tx:
            await ledger.open_account(tx, account_id=account_id, kind=kind, name="Test")
            if credits_granted:
                await ledger.grant(
                    tx, account_id=account_id, credits=credits_granted, reason="test", actor="test", key=account_id
                )
        return account_id

    async def admit(self, asked: GenerationRequest, **limits: int) -> Admission:
        """Admit as the orchestrator does: one statement."""
        async with self.database.single_statement() as tx:
            return await generations.admit(tx, asked, **limits)

    async def settle(self, task_id: str, credits_charged: int = 10, actor: str = "workflow:test") -> Closing:
        """Settle."""
        async with self.database.single_statement() as tx:
            return await generations.settle(
                tx, Settle(task_id=task_id, credits=credits_charged, lease_id=None, actor=actor)
            )

    async def release(self, task_id: str, status: Status = Status.FAILED) -> Closing:
        """Release."""
        async with self.database.single_statement() as tx:
            return await generations.release(
                tx,
                Release(
                    task_id=task_id,
                    status=status,
                    failure=Failure(code=Code.UPSTREAM_FAILED, message="The engine failed."),
                    lease_id=None,
                    actor="workflow:test",
                ),
            )

    async def keep(self, asked: GenerationRequest, text: str = "output") -> None:
        """Keep one artifact, as the media worker does after a good inspection."""
        kept = Artifact(index=0, role="image", blob=blob(text), width=128, height=128)
        async with self.database.transaction() as tx:
            await generations.keep(
                tx, KeepOrder(task_id=asked.task_id, account_id=asked.account_id, artifacts=(kept,))
            )

    async def report(self, *arguments: Any, **changes: Any) -> None:
        """Record a host's report."""
        async with self.database.single_statement() as tx:
            await leases.record_report(tx, report(*arguments, **changes))

    async def balance(self, account_id: str) -> tuple[int, int, int]:
        """Available, held, spent."""
        async with self.database.read() as reader:
            found = await ledger.balance(reader, account_id)
        return found.available, found.held, found.spent

    async def record(self, asked: GenerationRequest) -> generations.GenerationRecord:
        """What its owner reads."""
        async with self.database.read() as reader:
            found = await generations.find(reader, account_id=asked.account_id, task_id=asked.task_id)
        assert found is not None
        return found

    async def breaches(self) -> list[ledger.Finding]:
        """Invariants that don't hold now."""
        async with self.database.read() as reader:
            return [finding for finding in await ledger.audit(reader) if not finding.ok]
