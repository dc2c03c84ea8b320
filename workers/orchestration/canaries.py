"""Canaries: a model is ready where a minimal real request of it passed, on the present agent and manifest."""

import asyncio
import hashlib
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from temporalio.client import Client

from infra import canaries, ledger
from infra import generations as records
from infra.catalog.catalog import Catalog, CatalogEntry
from infra.db import Database
from infra.storage.records import claim_upload, mark_stored
from infra.storage.store import BlobStore, StoreAwayError
from infra.temporal import generations
from workers.orchestration.loop import Loop
from workflows.contracts import ids, timeouts
from workflows.contracts.failures import Failure
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.media import BlobRef
from workflows.domain.plan import ImageFacts, Plan, input_image, plan

HOUSE_CREDITS = 1_000_000
"""Granted once; a canary costs a credit or two."""
RETRY_FIRST = timedelta(seconds=5)
RETRY_MAX = timedelta(minutes=10)
log = structlog.get_logger(__name__)


class Canaries(Loop):
    """Starts what is missing. The house pays, through the same admission as everybody."""

    role = "canaries"

    def __init__(self, database: Database, client: Client, store: BlobStore, catalog: Catalog) -> None:
        """Nothing is read yet."""
        super().__init__(database)
        self._client = client
        self._store = store
        self._catalog = catalog
        self._account_is_open = False

    async def turn(self) -> None:
        """Start a canary for each live card and model that has none, failed ones again, later each time."""
        candidates = [
            canaries.Candidate(
                model_id=entry.manifest.id,
                digest=entry.digest,
                capability=entry.manifest.capability,
                engine=entry.manifest.engine,
            )
            for entry in self._catalog.entries.values()
        ]
        async with self._database.read() as reader:
            missing = await canaries.unproven(reader, candidates)
        for each in missing:
            if not each.open and _is_due(each):
                await self._start(self._catalog.entries[each.model_id], each)

    async def _start(self, entry: CatalogEntry, missing: canaries.Unproven) -> None:
        operation_id = f"{missing.operation_prefix}{missing.ended}"
        picture = canaries.picture(entry.manifest.canary.side)
        side = entry.manifest.canary.side
        facts = ImageFacts(mime="image/png", size=len(picture), width=side, height=side, frames=1, has_alpha=False)
        planned = plan(
            entry.manifest,
            digest=entry.digest,
            mode=None,
            parameters=entry.manifest.canary.parameters,
            inputs=[facts],
        )
        if isinstance(planned, Failure):
            log.error("canary does not fit its own manifest", model=entry.manifest.id, reason=planned.message)
            return
        try:
            await self._open_account()
            request = await self._request(operation_id, planned, facts, await self._put(picture, operation_id))
            admission = await generations.admit(self._client, request)
        except (generations.GenerationCallError, StoreAwayError) as error:
            log.warning("canary put off", model=entry.manifest.id, reason=str(error))
            return
        log.info(
            "canary started",
            model=entry.manifest.id,
            task_id=request.task_id,
            outcome=admission.outcome,
            refusal=admission.refusal.code if admission.refusal else None,
        )

    async def _open_account(self) -> None:
        if self._account_is_open:
            return
        async with self._database.transaction() as tx:
            await ledger.open_account(tx, account_id=ledger.HOUSE, kind=ledger.AccountKind.HOUSE, name="The house")
            await ledger.grant(
                tx,
                account_id=ledger.HOUSE,
                credits=HOUSE_CREDITS,
                reason="canaries",
                actor="orchestrator",
                key="house-canaries-1",
            )
        self._account_is_open = True

    async def _put(self, picture: bytes, operation_id: str) -> str:
        """Store the picture as any caller's would be, claimed before its bytes are there."""
        sha256 = hashlib.sha256(picture).hexdigest()
        blob = BlobRef(sha256=sha256, size=len(picture), mime="image/png")
        async with self._database.transaction() as tx:
            await claim_upload(tx, blob, account_id=ledger.HOUSE, operation_id=operation_id)
        with tempfile.TemporaryDirectory(prefix="holdfast-canary-") as folder:
            path = Path(folder) / "picture.png"
            await asyncio.to_thread(path.write_bytes, picture)
            await self._store.put_file(path, sha256)
        async with self._database.transaction() as tx:
            await mark_stored(tx, sha256)
        return sha256

    async def _request(
        self, operation_id: str, planned: Plan, facts: ImageFacts, sha256: str
    ) -> GenerationRequest:
        model_id = planned.snapshot.model_id
        async with self._database.read() as reader:
            known = await records.preflight(
                reader, account_id=ledger.HOUSE, operation_id=operation_id, model_id=model_id
            )
        now = datetime.now(UTC)
        return GenerationRequest(
            task_id=ids.task_id(ledger.HOUSE, operation_id),
            account_id=ledger.HOUSE,
            operation_id=operation_id,
            fingerprint=hashlib.sha256(f"{operation_id}:{sha256}".encode()).hexdigest(),
            fields={"model": model_id, "image": sha256},
            attempt=known.existing.attempt if known.existing else 1,
            model=planned.snapshot,
            parameters=planned.parameters,
            inputs=(input_image(facts, sha256),),
            outputs=planned.outputs,
            price_credits=planned.price_credits,
            created_at=now,
            admit_by=now + timeouts.ADMISSION,
            expires_at=now + timedelta(seconds=planned.wait_s_max),
            is_canary=True,
        )


def _is_due(missing: canaries.Unproven) -> bool:
    if missing.since_last is None:
        return True
    factor: int = 2 ** min(missing.ended - 1, 10)
    return missing.since_last >= min(RETRY_FIRST * factor, RETRY_MAX)
