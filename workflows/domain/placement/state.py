"""What placement sees and what it answers."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CardState:
    """One card as the database knows it.

    Attributes:
        uuid: The physical card.
        label: Public name.
        engines: Engine kinds that are up on it, as `native`.
        capabilities: What its engines offer, as `image_upscale`.
        vram_total_mib: MiB.
        reported_at: Its host's last report.
        cordoned: True when an operator stopped new work.
        busy: True while a lease is open, or its host hasn't said that the last run is over.
    """

    uuid: str
    label: str
    engines: frozenset[str]
    capabilities: frozenset[str]
    vram_total_mib: int
    reported_at: datetime
    cordoned: bool
    busy: bool


@dataclass(frozen=True, slots=True)
class Ticket:
    """One waiting generation.

    Attributes:
        task_id: The generation.
        account_id: For fairness between accounts.
        engine: The engine kind that its model runs on.
        capability: What it needs.
        vram_budget_mib: MiB.
        enqueued_at: When it began to wait.
        came_back_from: Cards that it was given and did not run on.
    """

    task_id: str
    account_id: str
    engine: str
    capability: str
    vram_budget_mib: int
    enqueued_at: datetime
    came_back_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Assignment:
    """A decision: this generation on this card."""

    task_id: str
    card_uuid: str
