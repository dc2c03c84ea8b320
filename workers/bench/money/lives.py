"""What the model believes of one generation, and requests for it."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from workers.bench.money.purse import Draw
from workflows.contracts import ids
from workflows.contracts.generation import GenerationRequest, ModelSnapshot
from workflows.contracts.media import Artifact, BlobRef, InputImage, MediaContract
from workflows.contracts.states import CreditStatus, Status

SIDE = 64
QUEUE_MAX = 100_000
CAPABILITY, ENGINE = "image_upscale", "native"
MODEL = ModelSnapshot(
    model_id="image-upscale",
    digest="d" * 64,
    capability=CAPABILITY,
    engine=ENGINE,
    mode="fast",
    vram_budget_mib=512,
    run_s_max=900,
    queue_max=QUEUE_MAX,
    cancellable=True,
    resolve_by_s=86_400,
)


def request(account_id: str, operation_id: str, *, price: int) -> GenerationRequest:
    """A checked request, as the API would send it; the caller waits for longer than any check takes."""
    now = datetime.now(UTC)
    picture = InputImage(blob=_blob("input"), width=SIDE, height=SIDE, has_alpha=False)
    wanted = MediaContract(
        role="image", mime="image/png", width=SIDE, height=SIDE, has_alpha=False, bytes_max=100_000
    )
    return GenerationRequest(
        task_id=ids.task_id(account_id, operation_id),
        account_id=account_id,
        operation_id=operation_id,
        fingerprint="f" * 64,
        fields={"scale": "2"},
        attempt=1,
        model=MODEL,
        parameters={"scale": 2},
        inputs=(picture,),
        outputs=(wanted,),
        price_credits=price,
        created_at=now,
        admit_by=now + timedelta(days=1),
        expires_at=now + timedelta(days=2),
    )


def artifact() -> Artifact:
    """A result that fits the request."""
    return Artifact(index=0, role="image", blob=_blob("output"), width=SIDE, height=SIDE)


def _blob(text: str) -> BlobRef:
    raw = text.encode()
    return BlobRef(sha256=hashlib.sha256(raw).hexdigest(), size=len(raw), mime="image/png")


@dataclass(eq=False, slots=True)
class Life:
    """One generation.

    Attributes:
        asked: The request.
        held: Whether credits were ever held.
        draws: What the hold took of which lot.
        ended: How its credits ended; None while they are held.
        status: How it ended.
        charged: What was paid.
        given_back: By adjustments.
        attempt: To use next.
        doubted: Whether its outcome was ever shown as unknown, as far as the model knows: only to choose by.
        late: Whether a result was delivered after the release.
    """

    asked: GenerationRequest
    held: bool = False
    draws: list[Draw] = field(default_factory=list)
    ended: CreditStatus | None = None
    status: Status = Status.PENDING
    charged: int = 0
    given_back: int = 0
    attempt: int = 1
    doubted: bool = False
    late: bool = False

    @property
    def open(self) -> bool:
        """Whether credits are held now."""
        return self.held and self.ended is None

    @property
    def price(self) -> int:
        """What the hold takes."""
        return self.asked.price_credits

    @property
    def counted(self) -> int:
        """What counts against a day's limit."""
        return self.price if self.open else self.charged
