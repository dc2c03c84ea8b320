"""Canaries: a model is ready where a minimal real request of it passed, on the present agent and manifest."""

import asyncio
import hashlib
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog
from temporalio.client import Client

from infra import canaries, ledger
from infra import generations as records
from infra.catalog.catalog import Catalog, CatalogEntry
from infra.db import Database
from infra.storage.records import claim_upload, mark_stored
from infra.storage.store import BlobStore, StoreAwayError
from infra.temporal import generations
from workers.orchestration import warming
from workers.orchestration.loop import Loop
from workflows.contracts import ids, timeouts
from workflows.contracts.failures import Failure
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.media import BlobRef
from workflows.contracts.states import AdmissionOutcome
from workflows.domain.placement.warmth import WarmUp, warm, warm_ups
from workflows.domain.plan import ImageFacts, Plan, input_image, plan

HOUSE_CREDITS = 1_000_000
"""Granted first, and again whenever half of a grant is spent; a canary costs a credit or two."""
DOUBT_MAX = timedelta(minutes=10)
"""A canary in doubt keeps its model from its card. It is the house's own loss, so nobody has to decide."""
RETRY_FIRST = timedelta(seconds=5)
RETRY_MAX = timedelta(minutes=10)
WARM_EACH_S = 10.0
"""How often it is looked whether cards have to be warmed up."""
WARM_UP_S = 120.0
"""A warm-up counts as done for so long; by then the card's engine has told what it loaded."""
log = structlog.get_logger(__name__)


class _PutOff(NamedTuple):
    """How often in a row no credits could be held, and until when (monotonic seconds) it isn't tried again."""

    times: int
    until: float


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
        self._put_off: dict[str, _PutOff] = {}
        self._warm_at = float("-inf")
        self._warming: dict[WarmUp, float] = {}

    async def turn(self) -> None:
        """Start a canary for each live card and model that has none, failed ones again, later each time."""
        candidates = [
            canaries.Candidate(
                model_id=entry.manifest.id,
                digest=entry.digest,
                capability=entry.manifest.capability,
                engine=entry.manifest.engine,
                needed_mib=entry.manifest.vram_budget_mib + entry.manifest.reserve_mib,
                cards=entry.manifest.cards,
            )
            for entry in self._catalog.entries.values()
        ]
        async with self._database.read() as reader:
            missing = await canaries.unproven(reader, candidates)
        for each in missing:
            if each.open or not _is_due(each) or self._is_put_off(each.operation_prefix):
                continue
            if await self._start(
                self._catalog.entries[each.model_id], f"{each.operation_prefix}{each.ended}", each.card_uuid
            ):
                self._put_off.pop(each.operation_prefix, None)
            else:
                self._put_off_again(each.operation_prefix)
        if time.monotonic() - self._warm_at >= WARM_EACH_S:
            self._warm_at = time.monotonic()
            await self._warm_up()

    async def _warm_up(self) -> None:
        """Where too few cards have a model loaded, run a canary of it on idle ones."""
        async with self._database.read() as reader:
            warmth = await warming.look(reader, self._catalog)
        now = time.monotonic()
        self._warming = {one: until for one, until in self._warming.items() if until > now}
        for target in warmth.targets:
            for card in warm(warmth.cards, target.work):
                self._put_off.pop(_warm_up_name(target.model_id, card.uuid), None)
        for one in warm_ups(warmth.targets, warmth.cards, self._warming):
            entry, name = self._catalog.entries[one.model_id], _warm_up_name(one.model_id, one.card_uuid)
            if self._is_put_off(name):
                continue
            self._put_off_again(name)  # an engine that never tells what it loaded is asked ever more seldom
            self._warming[one] = now + WARM_UP_S
            log.info("warming up", model=one.model_id, card=one.card_uuid)
            operation_id = f"{name}:{time.time():.0f}"
            await self._start(entry, operation_id, one.card_uuid)

    def _is_put_off(self, prefix: str) -> bool:
        """What was never held leaves no generation to count, so its pauses are remembered here."""
        return prefix in self._put_off and time.monotonic() < self._put_off[prefix].until

    def _put_off_again(self, prefix: str) -> None:
        times = self._put_off[prefix].times + 1 if prefix in self._put_off else 1
        self._put_off[prefix] = _PutOff(times, time.monotonic() + _pause(times).total_seconds())

    async def _start(self, entry: CatalogEntry, operation_id: str, card_uuid: str) -> bool:
        """True when its credits are held."""
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
            return False
        try:
            await self._open_account()
            sha256 = await self._put(picture, operation_id)
            request = await self._request(operation_id, _on_card(planned, card_uuid), facts, sha256)
            admission = await generations.admit(self._client, request)
        except (generations.GenerationCallError, StoreAwayError) as error:
            log.warning("canary put off", model=entry.manifest.id, reason=str(error))
            return False
        log.info(
            "canary started",
            model=entry.manifest.id,
            task_id=request.task_id,
            outcome=admission.outcome,
            refusal=admission.refusal.code if admission.refusal else None,
        )
        self._account_is_open = admission.outcome is not AdmissionOutcome.REFUSED  # it may need a grant
        return self._account_is_open

    async def _open_account(self) -> None:
        if self._account_is_open:
            return
        async with self._database.transaction() as tx:
            await ledger.open_account(tx, account_id=ledger.HOUSE, kind=ledger.AccountKind.HOUSE, name="The house")
            halves_spent = (await ledger.balance(tx, ledger.HOUSE)).spent // (HOUSE_CREDITS // 2)
            await ledger.grant(
                tx,
                account_id=ledger.HOUSE,
                credits=HOUSE_CREDITS,
                reason="canaries",
                actor="orchestrator",
                key=f"house-canaries-{halves_spent + 1}",
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
            model=planned.snapshot.model_copy(
                update={"release_unknown": True, "resolve_by_s": int(DOUBT_MAX.total_seconds())}
            ),
            parameters=planned.parameters,
            inputs=(input_image(facts, sha256),),
            outputs=planned.outputs,
            price_credits=planned.price_credits,
            price=planned.price,
            created_at=now,
            admit_by=now + known.clock_ahead + timeouts.ADMISSION,
            expires_at=now + timedelta(seconds=planned.wait_s_max),
            is_canary=True,
        )


def _on_card(planned: Plan, card_uuid: str) -> Plan:
    """The same, asked of one card: any other would prove nothing about it."""
    needs = planned.snapshot.placement
    if needs is None:
        raise AssertionError(f"the plan of {planned.snapshot.model_id} says nothing of placement")
    placement = needs.model_copy(update={"only_card": card_uuid})
    return replace(planned, snapshot=planned.snapshot.model_copy(update={"placement": placement}))


def _warm_up_name(model_id: str, card_uuid: str) -> str:
    """Short enough to begin an operation id, whatever a host calls its cards."""
    return f"warm:{model_id}:{hashlib.sha256(card_uuid.encode()).hexdigest()[:8]}"


def _is_due(missing: canaries.Unproven) -> bool:
    if missing.since_last is None:
        return True
    return missing.since_last >= _pause(missing.ended)


def _pause(tries: int) -> timedelta:
    factor: int = 2 ** min(tries - 1, 10)
    return min(RETRY_FIRST * factor, RETRY_MAX)
