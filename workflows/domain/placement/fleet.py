"""What placement knows of cards and of work. Times are unix seconds, memory is MiB."""

from dataclasses import dataclass, field
from enum import StrEnum


class Priority(StrEnum):
    """How urgent a ticket is. A class is a head start, never a right to starve the others."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"


class Standing(StrEnum):
    """Whether a card takes new work."""

    OPEN = "open"
    CORDONED = "cordoned"
    """An operator stopped new work; what runs goes on."""
    QUARANTINED = "quarantined"
    """It failed several times in a row, or its canary; it comes back by a canary."""


@dataclass(frozen=True, slots=True)
class Resident:
    """What stays in a card's memory between runs: a model's part, or a service.

    Attributes:
        name: Unique among all models, as `flux2-klein/unet` or `hair-gan`.
        mib: Memory it occupies.
        load_s: Seconds to bring it in: reading weights, or starting the service.
        stop_s: Seconds to get it out.
        working_mib: Memory that a run takes beside it while it is in use.
    """

    name: str
    mib: int
    load_s: float
    stop_s: float = 0.0
    working_mib: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What all generations of one model and mode need. A class of work: placement decides by class.

    Attributes:
        key: Names this very description; two descriptions never share one.
        capability: What a card's engine must offer.
        engine: The engine kind.
        budget_mib: The configured budget: a filter, never a measured peak.
        run_s: Seconds it runs on a warm card, learned or declared.
        reserve_mib: Kept free on top of the budget.
        residents: What it uses, in the order of use. Where not all fit at once, earlier ones make room for later.
        cards: Cards of one host that it needs at the same time.
        priority: Its class.
    """

    key: str
    capability: str
    engine: str
    budget_mib: int
    run_s: float
    reserve_mib: int = 0
    residents: tuple[Resident, ...] = ()
    cards: int = 1
    priority: Priority = Priority.INTERACTIVE


@dataclass(frozen=True, slots=True)
class Card:
    """One card.

    Attributes:
        uuid: The physical card.
        label: Public name.
        host: Where it is; a gang's cards share it.
        engines: Engine kinds that are up on it.
        capabilities: What its engines offer.
        total_mib: Its memory.
        reported_at: Its host's last report.
        foreign_mib: Taken by processes that aren't ours.
        residents: What is loaded, in the order of last use, oldest first.
        pinned: Names of residents that may not be evicted.
        standing: Whether it takes new work.
        busy_until: When it is expected to be free; None when it is free now.
    """

    uuid: str
    label: str
    host: str
    engines: frozenset[str]
    capabilities: frozenset[str]
    total_mib: int
    reported_at: float
    foreign_mib: int = 0
    residents: tuple[Resident, ...] = ()
    pinned: frozenset[str] = frozenset()
    standing: Standing = Standing.OPEN
    busy_until: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """One waiting generation.

    Attributes:
        task_id: The generation.
        account_id: For fairness.
        work: What it needs.
        enqueued_at: When it began to wait.
        came_back_from: Cards that it was given and did not run on: its last choice.
    """

    task_id: str
    account_id: str
    work: Work
    enqueued_at: float
    came_back_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Share:
    """What an account may have of the fleet.

    Attributes:
        weight: Its part beside others; 2 gets twice what 1 gets while both wait.
        in_flight_max: Its generations on cards at one time; None is no limit.
    """

    weight: float = 1.0
    in_flight_max: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The named numbers of placement. Seconds, unless said otherwise.

    Attributes:
        head_start_s: How much later a class may come than the most urgent and still go first, by class.
        patience: Long work lets short work ahead by this many times its own run.
        patience_s_max: ... but by no more than this.
        reload_weight: A second of loading weighs as much as this many of waiting.
        fresh_s: A card whose last report is older takes nothing.
        shares: By account; who isn't named has `Share()`.
        warm_min: By name of a resident: on so many cards it isn't evicted lightly.
    """

    head_start_s: dict[Priority, float] = field(
        default_factory=lambda: {Priority.INTERACTIVE: 0.0, Priority.STANDARD: 30.0, Priority.BATCH: 600.0}
    )
    patience: float = 1.0
    patience_s_max: float = 300.0
    reload_weight: float = 4.0
    fresh_s: float = 5.0
    shares: dict[str, Share] = field(default_factory=dict)
    warm_min: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Given:
    """A decision: this generation on these cards, one unless it is a gang.

    Attributes:
        task_id: The generation.
        cards: The first runs it.
        account_id: Whose it is.
        expected_s: Seconds that it is expected to be on them, loading included.
    """

    task_id: str
    cards: tuple[str, ...]
    account_id: str = field(default="", compare=False)
    expected_s: float = field(default=0.0, compare=False)
