"""A scripted world around the workflow: fake activities under the real names, one script a generation.

The fakes keep a small ledger of their own, so that each test can end with the money check.
"""

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from infra.temporal import generations
from tests.flows.evidence import EvidenceSteps, closing
from tests.flows.server import DEPLOYMENT
from tests.support.sandbox import STRICT
from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts import ids, queues, timeouts
from workflows.contracts.failures import Code, Failure
from workflows.contracts.media import Artifact, BlobRef, InputImage, MediaContract, RefusedOutput
from workflows.contracts.prices import PriceTerms
from workflows.contracts.states import AdmissionOutcome, CreditStatus, RunVerdict, Status
from workflows.definitions.generation import GenerationWorkflow

PRICE = 5
BLACK = RefusedOutput(index=0, code=Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE, message="It is black all over.")
Run = Callable[["Script", g.RunOrder], Awaitable[g.RunOutcome]]


def finished() -> g.RunOutcome:
    blob = BlobRef(sha256="ab" * 32, size=100, mime="image/png")
    return g.RunOutcome(verdict=RunVerdict.FINISHED, files=(blob,), evidence="the engine finished")


def gave(*places: int) -> g.RunOutcome:
    """Finished, with one file for each of these outputs."""
    files = tuple(BlobRef(sha256=f"{order:064x}", size=100, mime="image/png") for order, _ in enumerate(places))
    return g.RunOutcome(verdict=RunVerdict.FINISHED, files=files, indices=places, evidence="the engine finished")


async def runs_at_once(script: "Script", order: g.RunOrder) -> g.RunOutcome:
    return finished()


async def runs_until_told(script: "Script", order: g.RunOrder) -> g.RunOutcome:
    """Work until the test says finish; confirm a cancel as an engine would."""
    try:
        while not script.finish.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)  # the engine's own pace
    except asyncio.CancelledError:
        script.log.append("engine stopped")
        return g.RunOutcome(verdict=RunVerdict.CANCELED, evidence="the engine confirmed")
    return finished()


def says(*outcomes: g.RunOutcome) -> Run:
    """A host that answers with these in turn, the last one for ever."""
    left = list(outcomes)

    async def run(script: "Script", order: g.RunOrder) -> g.RunOutcome:
        return left.pop(0) if len(left) > 1 else left[0]

    return run


@dataclass
class Script:
    """What shall happen to one generation, and what did."""

    request: g.GenerationRequest
    card: g.LeaseGrant
    at_once: bool = True
    refusal: Failure | None = None
    admitted_fingerprint: str | None = None
    """Of the body that was admitted, where it isn't the request's."""
    hold_gate: asyncio.Event = field(default_factory=asyncio.Event)
    inspect_gate: asyncio.Event = field(default_factory=asyncio.Event)
    accepts: bool = True
    fetched: bool = True
    """Whether a host that took the run fetched its order, as it does first of all."""
    run: Run = runs_at_once
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    inspection: Failure | None = None
    broken: dict[str, RefusedOutput] = field(default_factory=dict)
    """Why the file with this digest isn't as promised."""
    notes: list[str] = field(default_factory=list)
    kept: list[g.KeepOrder] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    orders: list[g.RunOrder] = field(default_factory=list)
    unknowns: list[g.MarkUnknown] = field(default_factory=list)
    looks: list[e.Look] = field(default_factory=list)
    """What was recorded, a repetition once."""
    stored: tuple[BlobRef, ...] = ()
    """What a look into the store finds."""
    journaled: g.RunOutcome | None = None
    """What the host's journal says at once, whatever its card does."""
    late_for: timedelta = timedelta(days=7)
    """How long a result is looked for after a release without an outcome."""
    late: e.LateLook | None = None
    late_ending: str | None = None
    acts: list[e.Resolve] = field(default_factory=list)
    held: int = 0
    settled: int = 0
    released: int = 0
    closing: g.Closing | None = None

    def count(self, name: str) -> int:
        return self.log.count(name)

    def check_money(self, *, settled: int) -> None:
        """Everything held went exactly one way."""
        held = self.request.price_credits
        assert (self.held, self.settled, self.released) == (held, settled, held - settled)

    def asks_for(self, *prices: int) -> None:
        """As many outputs, each at its own price."""
        (contract,) = self.request.outputs
        self.request = self.request.model_copy(
            update={
                "outputs": (contract,) * len(prices),
                "price": PriceTerms(per_output=prices),
                "price_credits": sum(prices),
            }
        )


class World(EvidenceSteps):
    """All scripts, and the fake activities that follow them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.scripts: dict[str, Script] = {}
        self._numbers = itertools.count(1)
        self._shared_card: str | None = None

    def script(
        self, *, cancellable: bool = True, waits: timedelta = timedelta(minutes=5), **kwargs: object
    ) -> Script:
        """A new generation of its own account and card."""
        number = next(self._numbers)
        request = make_request(f"account-{number}", uuid.uuid4().hex, cancellable=cancellable, waits=waits)
        model = request.model.model_copy(
            update={name: kwargs.pop(name) for name in ("resolve_by_s", "release_unknown") if name in kwargs}
        )
        request = request.model_copy(update={"model": model})
        script = Script(request=request, card=self.lease(number), **kwargs)  # type: ignore[arg-type]  # a test's own keywords
        script.hold_gate.set()
        script.inspect_gate.set()
        if self._shared_card is not None:
            script.card = script.card.model_copy(update={"card_uuid": self._shared_card})
        self.scripts[request.task_id] = script
        return script

    @contextlib.asynccontextmanager
    async def hosting(self) -> AsyncIterator[None]:
        """Give the scripts made within one card, with its host."""
        self._shared_card = f"card-{uuid.uuid4().hex[:8]}"
        async with self._hosting(self._shared_card):
            yield
        self._shared_card = None

    def lease(self, number: int, fence: int = 1) -> g.LeaseGrant:
        return g.LeaseGrant(
            lease_id=str(uuid.uuid4()),
            card_uuid=f"card-{number}-{uuid.uuid4().hex[:8]}",
            card_label=f"cpu-{number}",
            fence=fence,
            accepted=True,
        )

    def host(self, script: Script) -> contextlib.AbstractAsyncContextManager[None]:
        """The workers of the script's card."""
        return self._hosting(script.card.card_uuid)

    @contextlib.asynccontextmanager
    async def _hosting(self, card_uuid: str) -> AsyncIterator[None]:
        card = Worker(
            self.client,
            task_queue=ids.card_queue(card_uuid),
            activities=[self.run_on_card],
            max_concurrent_activities=1,
            max_heartbeat_throttle_interval=timedelta(milliseconds=100),
        )
        looks = Worker(self.client, task_queue=ids.look_queue(card_uuid), activities=[self.look_in_journal])
        async with card, looks:
            yield

    async def admit_it(self, script: Script) -> g.Admission:
        return await generations.admit(self.client, script.request)

    def handle(self, script: Script) -> WorkflowHandle[GenerationWorkflow, g.GenerationResult]:
        return self.client.get_workflow_handle_for(GenerationWorkflow.run, script.request.task_id)

    async def view(self, script: Script) -> g.GenerationView:
        return await self.handle(script).query(GenerationWorkflow.state)

    @activity.defn(name="admit")
    async def admit(self, request: g.GenerationRequest) -> g.Admission:
        script = self.scripts[request.task_id]
        script.log.append("admit")
        await script.hold_gate.wait()
        if script.refusal is not None:
            return g.Admission(
                task_id=request.task_id,
                outcome=AdmissionOutcome.REFUSED,
                fingerprint=request.fingerprint,
                refusal=script.refusal,
            )
        script.held = request.price_credits
        return g.Admission(
            task_id=request.task_id,
            outcome=AdmissionOutcome.HELD,
            fingerprint=script.admitted_fingerprint or request.fingerprint,
            credit_status=CreditStatus.HELD,
            balance_credits=95,
            lease=script.card if script.at_once else None,
        )

    @activity.defn(name="accept_lease")
    async def accept_lease(self, order: g.AcceptLease) -> bool:
        script = self.scripts[order.task_id]
        script.log.append("accept")
        return script.accepts

    @activity.defn(name="requeue")
    async def requeue(self, order: g.Requeue) -> bool:
        script = self.scripts[order.task_id]
        script.log.append("requeue")
        return order.never_ran or not (script.orders and script.fetched)

    @activity.defn(name="advance")
    async def advance(self, step: g.Advance) -> None:
        script = self.scripts[step.task_id]
        script.log.append(f"advance {step.phase.value}")
        script.notes.append(step.note)

    @activity.defn(name="settle")
    async def settle(self, order: g.Settle) -> g.Closing:
        script = self.scripts[order.task_id]
        script.log.append("settle")
        if script.closing is None:
            script.settled += order.credits
            script.released += script.held - order.credits
            script.closing = closing(order.task_id, Status.COMPLETED, CreditStatus.SETTLED, order.credits)
        return script.closing

    @activity.defn(name="release")
    async def release(self, order: g.Release) -> g.Closing:
        script = self.scripts[order.task_id]
        script.log.append(f"release {order.failure.code.value} by {order.actor}")
        if script.closing is None:
            self.end_released(script, order.status, order.failure)
        assert script.closing is not None
        return script.closing

    @activity.defn(name="mark_unknown")
    async def mark_unknown(self, order: g.MarkUnknown) -> None:
        self.scripts[order.task_id].unknowns.append(order)

    @activity.defn(name="run_on_card")
    async def run_on_card(self, order: g.RunOrder) -> g.RunOutcome:
        script = self.scripts[order.task_id]
        script.orders.append(order)
        script.log.append("look" if order.attach_only else "run")
        return await script.run(script, order)

    @activity.defn(name="inspect")
    async def inspect(self, order: g.InspectOrder) -> g.Inspection:
        script = self.scripts[order.task_id]
        await script.inspect_gate.wait()
        if script.inspection is not None:
            return g.Inspection(failure=script.inspection)
        pairs = list(enumerate(zip(order.files, order.contracts, strict=True)))
        refused = tuple(
            script.broken[blob.sha256].model_copy(update={"index": index})
            for index, (blob, _) in pairs
            if blob.sha256 in script.broken
        )
        return g.Inspection(
            artifacts=tuple(
                Artifact(index=index, role=contract.role, blob=blob, width=contract.width, height=contract.height)
                for index, (blob, contract) in pairs
                if blob.sha256 not in script.broken
            ),
            refused=refused,
            failure=Failure(code=refused[0].code, message=refused[0].message)
            if len(refused) == len(pairs)
            else None,
        )

    @activity.defn(name="keep")
    async def keep(self, order: g.KeepOrder) -> None:
        script = self.scripts[order.task_id]
        script.log.append("keep")
        script.kept.append(order)

    def workers(self) -> tuple[Worker, Worker]:
        """The orchestrator and the media worker, with the sandbox on."""
        return (
            Worker(
                self.client,
                task_queue=queues.ORCHESTRATOR,
                workflows=[GenerationWorkflow],
                activities=[
                    self.admit,
                    self.accept_lease,
                    self.requeue,
                    self.advance,
                    self.settle,
                    self.release,
                    self.mark_unknown,
                    self.resolve,
                    self.record_look,
                    self.begin_late_look,
                    self.plan_late_look,
                    self.end_late_look,
                    self.deliver_late,
                ],
                workflow_runner=STRICT,
                sticky_queue_schedule_to_start_timeout=timeouts.STICKY_QUEUE,
                deployment_config=DEPLOYMENT,
            ),
            Worker(self.client, task_queue=queues.MEDIA, activities=[self.inspect, self.keep, self.look_in_store]),
        )


def make_request(account: str, operation: str, *, cancellable: bool, waits: timedelta) -> g.GenerationRequest:
    """A small checked request, as the API would send it."""
    now = datetime.now(UTC)
    picture = BlobRef(sha256="cd" * 32, size=1000, mime="image/png")
    return g.GenerationRequest(
        task_id=ids.task_id(account, operation),
        account_id=account,
        operation_id=operation,
        fingerprint="f" * 64,
        fields={"model": "image-upscale"},
        attempt=1,
        model=g.ModelSnapshot(
            model_id="image-upscale",
            digest="0" * 64,
            capability="image_upscale",
            engine="native",
            mode="fast",
            vram_budget_mib=512,
            run_s_max=60,
            queue_max=10,
            cancellable=cancellable,
            resolve_by_s=3600,
        ),
        parameters={"scale": 2},
        inputs=(InputImage(blob=picture, width=32, height=32, has_alpha=False),),
        outputs=(
            MediaContract(
                role="image", mime="image/png", width=64, height=64, has_alpha=False, bytes_max=1_000_000
            ),
        ),
        price_credits=PRICE,
        created_at=now,
        admit_by=now + timeouts.ADMISSION,
        expires_at=now + waits,
    )


def refusal() -> Failure:
    return Failure(code=Code.INSUFFICIENT_CREDITS, message="The price is 5 credits, 0 are available.")
