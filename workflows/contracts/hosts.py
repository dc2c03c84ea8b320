"""The messages between a card's host and the API's internal endpoint.

A host holds no database credentials. It reaches Temporal, the object store by short-lived signed
addresses, and `/internal/v1` of the API with its host token.
"""

from enum import StrEnum

from pydantic import AwareDatetime

from workflows.contracts.generation import Parameter
from workflows.contracts.media import BlobRef, InputImage, MediaContract
from workflows.contracts.message import Message


class Running(Message):
    """What a card is doing, as its host sees it."""

    task_id: str
    fence: int
    fraction: float
    """0 to 1; never 1 before the artifact is stored."""


class Loaded(Message):
    """Something in a card's memory, with what it costs to bring it back and to stop it. MiB and seconds."""

    name: str
    mib: int
    load_s: float = 0.0
    stop_s: float = 0.0
    working_mib: int = 0


class Telemetry(Message):
    """What NVML says of a card; each is None where it can't be told.

    Attributes:
        utilisation: 0 to 1.
        temperature_c: Degrees Celsius.
        power_w: Watts.
        ecc_errors: Uncorrected memory errors since the driver was loaded.
        xid: The last critical fault's number; None when there was none.
        processes: Processes that use it, ours included.
        nonsense: What was told and can't be, as sentences; the other figures are then the last good ones.
    """

    utilisation: float | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    ecc_errors: int | None = None
    xid: int | None = None
    processes: int | None = None
    nonsense: tuple[str, ...] = ()


class RunMemory(Message):
    """Memory that a run was seen to take on its card.

    Attributes:
        task_id: The generation.
        lease_id: Its lease.
        fence: Of the lease.
        baseline_mib: Of ours on the card when it began, with what was loaded before. MiB.
        peak_mib: At most while it ran. MiB.
        out_of_memory: True when it was not enough.
    """

    task_id: str
    lease_id: str
    fence: int
    baseline_mib: int
    peak_mib: int
    out_of_memory: bool


class OrderFault(StrEnum):
    """Why a host acts on nothing of what it received."""

    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    """Signed by a key that this host wasn't given."""
    ALTERED = "altered"
    """Other than it was when it was signed."""
    ANOTHER_CARD = "another_card"
    NOT_ASKED_FOR = "not_asked_for"
    """Signed for another lease, purpose or question than this host's."""
    EXPIRED = "expired"
    OLD_FENCE = "old_fence"
    """Below a fence under which this card was ordered before."""


class RefusedOrder(Message):
    """The last order of a card that its host refused; told with each report, for operators."""

    fault: OrderFault
    reason: str
    task_id: str
    fence: int
    times: int = 1
    """Since the agent started."""


class CardReport(Message):
    """One card, as seen by its host.

    Attributes:
        card_uuid: NVML's UUID, or `cpu-<host>-<n>` where there is no GPU.
        label: The public name.
        gpu_model: As NVML names it; `CPU` without one.
        vram_total_mib: MiB; for a CPU card, what may be used of main memory.
        vram_free_mib: MiB.
        engines: Engine kinds that are up, as `native`.
        capabilities: What those engines offer, as `image_upscale`.
        boot_id: New with each start of the agent that owns the card.
        running: None when idle.
        settled_fence: The highest fence whose run the host knows to be over; 0 at first.
        foreign_mib: Memory taken by processes that aren't ours. MiB.
        residents: What is loaded, in the order of last use, oldest first.
        telemetry: How it fares.
        measured: Memory of runs that are over, each until a report with it was taken.
        known_fence: The highest fence under which it was ordered; the database never falls behind it, not even
            when an older copy was restored.
        refused_order: The last order that was refused here.
    """

    card_uuid: str
    label: str
    gpu_model: str
    vram_total_mib: int
    vram_free_mib: int
    engines: tuple[str, ...]
    capabilities: tuple[str, ...]
    boot_id: str
    running: Running | None = None
    settled_fence: int = 0
    foreign_mib: int = 0
    residents: tuple[Loaded, ...] = ()
    telemetry: Telemetry = Telemetry()
    measured: tuple[RunMemory, ...] = ()
    known_fence: int = 0
    refused_order: RefusedOrder | None = None


class HostReport(Message):
    """`POST /internal/v1/report`, once a second and at every change.

    Attributes:
        host: Its name, which may repeat.
        cards: All that it has.
        host_id: Its identity, kept beside its journal: whoever has another journal is another host.
    """

    host: str
    cards: tuple[CardReport, ...]
    host_id: str = ""


class ClaimRefused(Message):
    """A card that a report named and that isn't its host's, or not its agent's any more."""

    card_uuid: str
    reason: str


class ReportTaken(Message):
    """The answer to a report."""

    refused: tuple[ClaimRefused, ...] = ()


class Purpose(StrEnum):
    """What a warrant is for."""

    START = "start"
    LOOK = "look"
    """To find a run and follow it; nothing is started under it."""
    UPLOAD = "upload"


class Warrant(Message):
    """What the API signs (Ed25519) and a host acts on; see `infra.orders`.

    Attributes:
        purpose: What may be done.
        owner: SHA-256 of account and task: whoever knows both can prove whose work it was.
        task_id: The generation.
        card_uuid: The card that may do it.
        lease_id: Its lease.
        fence: The lease's.
        nonce: Of the request that it answers.
        expires_at: Unix seconds.
        digest: SHA-256 of the work, or of the file and where it goes.
        key_id: Of the key that signed.
        signature: 64 bytes in URL-safe base64.
    """

    purpose: Purpose
    owner: str
    task_id: str
    card_uuid: str
    lease_id: str
    fence: int
    nonce: str
    expires_at: int
    digest: str
    key_id: str
    signature: str = ""


class OrderRequest(Message):
    """`POST /internal/v1/orders`: exchange a lease for the work itself.

    Attributes:
        task_id: The generation.
        lease_id: The lease.
        card_uuid: The card.
        fence: The lease's.
        boot_id: Of the agent that asks.
        attach_only: True to look for the run alone.
        nonce: New with each question; the answer repeats it under its signature.
    """

    task_id: str
    lease_id: str
    card_uuid: str
    fence: int
    boot_id: str
    attach_only: bool = False
    nonce: str = ""


class SignedAddress(Message):
    """A short-lived address of one blob for one method."""

    url: str
    method: str
    expires_at: AwareDatetime


class WorkInput(Message):
    """An input and where to fetch it."""

    image: InputImage
    source: SignedAddress
    inline: str | None = None
    """The bytes themselves in base64, where they are few and at hand: a second call would take longer."""


class Work(Message):
    """What to run. Fetched fresh at each start, so that nothing personal or signed stays in a history."""

    task_id: str
    fence: int
    model_id: str
    digest: str
    engine: str
    capability: str
    mode: str
    parameters: dict[str, Parameter]
    inputs: tuple[WorkInput, ...]
    outputs: tuple[MediaContract, ...]
    run_s_max: int
    warrant: Warrant | None = None
    """Without a good one nothing is run."""


class StaleLease(Message):
    """409 of both calls: a newer fence exists or the lease ended. The host stops and delivers nothing."""

    reason: str
    stray: bool = False
    """True when another agent owns the card: then this one's journal proves nothing about the lease."""


class UploadRequest(Message):
    """`POST /internal/v1/uploads`: permission to store one finished file, checked against the fence again."""

    task_id: str
    lease_id: str
    fence: int
    file: BlobRef
    index: int | None = None
    """The output's place among those asked for; its grant is evidence if the host never comes back."""
    card_uuid: str = ""
    boot_id: str = ""
    nonce: str = ""
    """As of an order."""


class UploadGrant(Message):
    """Where to PUT the bytes; None when the store has them already."""

    target: SignedAddress | None
    warrant: Warrant | None = None
    """Without a good one nothing is stored."""
