"""What a run needs of its card and host."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from infra.engines.port import Engine, EngineKeeper
from infra.hosts.client import HostClient
from infra.hosts.journal import Journal
from workflows.contracts.hosts import RefusedOrder, RunMemory, Running


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a run waits for others, in seconds. Each is far beyond what was measured; none decides about money.

    Attributes:
        silent_s: An engine that doesn't answer: its keeper restarts a hung one after 20 s.
        stall_s: A run that makes no progress; the slowest measured step is a tile of 5 s.
        stop_s: An engine that was told to stop; it looks after each tile.
        api_s: The API, for an order or a grant; the step is tried again after it.
        transfer_s: One file.
        look_s: One look at a run: also the longest that a wish to stop goes unnoticed.
    """

    silent_s: float = 60.0
    stall_s: float = 120.0
    stop_s: float = 20.0
    api_s: float = 30.0
    transfer_s: float = 120.0
    look_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Memory of a card while a run was on it: before it, and at most, in MiB; and how often it was looked at."""

    baseline_mib: int
    peak_mib: int
    looks: int


class RunMeter(Protocol):
    """Measures the memory that one run after the other takes on a card."""

    def begin(self) -> None:
        """A run begins."""
        ...

    def end(self) -> Measured | None:
        """It is over; None when nothing could be measured."""
        ...


@dataclass
class CardDesk:
    """What a run needs of its card and host, and what the host's reports read of the run.

    Attributes:
        card_uuid: The card.
        boot_id: Of this agent.
        keeper: Of the card's engine.
        journal: Of this host.
        client: Of the API.
        folder: Where inputs are put, a folder a run.
        owned: Set once a report of this agent was taken: before that its orders would be refused as a stray's.
        tell: Sends a report now; returns when it was taken, or soon after when it can't be.
        patience: See there.
        running: What the card does now; reports carry it.
        meter: Of the memory that runs take; None where nobody measures.
        measured: Runs whose memory no report has told yet.
        short_in_row: Runs in a row that were short of memory.
        refused_order: The last order or permission that was refused here; reports carry it.
        active: Leases whose step is here right now; others with an open entry are nobody's.
    """

    card_uuid: str
    boot_id: str
    keeper: EngineKeeper
    journal: Journal
    client: HostClient
    folder: Path
    owned: asyncio.Event
    tell: Callable[[], Awaitable[None]]
    patience: Patience = field(default_factory=Patience)
    running: Running | None = None
    meter: RunMeter | None = None
    measured: list[RunMemory] = field(default_factory=list)
    short_in_row: int = 0
    refused_order: RefusedOrder | None = None
    active: set[tuple[str, int]] = field(default_factory=set)

    @property
    def engine(self) -> Engine:
        """The card's engine."""
        return self.keeper.engine
