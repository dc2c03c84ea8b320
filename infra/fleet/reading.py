"""Reading the fleet."""

from enum import StrEnum
from typing import Any

from infra.db import Reader, load
from workflows.contracts import timeouts
from workflows.contracts.hosts import Telemetry
from workflows.contracts.message import Message

_QUERIES = load(__package__)


class CardState(StrEnum):
    """What a card is doing, the most telling first."""

    SILENT = "silent"
    CORDONED = "cordoned"
    QUARANTINED = "quarantined"
    BUSY = "busy"
    IDLE = "idle"


class CardView(Message):
    """One card.

    Attributes:
        uuid: The physical card; never shown to clients.
        label: Its public name.
        gpu_model: As its vendor names it; `CPU` for the CPU.
        engines: Engine kinds that are up.
        capabilities: What those offer.
        vram_total_mib: MiB.
        vram_free_mib: MiB, at the last report.
        foreign_mib: Taken by processes that aren't ours. MiB.
        resident_names: What is loaded, the last used at the end.
        telemetry: How it fares.
        state: What it does.
        quarantine_reason: Why it is in quarantine.
        free_in_s: Seconds until its run is expected to be over; None when it has none or nothing is expected.
        running_model: The model that runs on it.
    """

    uuid: str
    label: str
    gpu_model: str
    engines: tuple[str, ...]
    capabilities: tuple[str, ...]
    vram_total_mib: int
    vram_free_mib: int
    foreign_mib: int
    resident_names: tuple[str, ...]
    telemetry: Telemetry
    state: CardState
    quarantine_reason: str | None
    free_in_s: float | None
    running_model: str | None


class Workload(Message):
    """What runs and waits of one model, and how long the first has waited. Seconds."""

    model_id: str
    running: int
    waiting: int
    longest_wait_s: float


class FleetView(Message):
    """The whole fleet."""

    cards: tuple[CardView, ...]
    workload: tuple[Workload, ...]


class Mine(Message):
    """An account's part.

    Attributes:
        running: Its generations on cards.
        waiting: Its generations in the queue.
        weight: Its part beside others.
        on_cards_max: Its bound, if it has one.
    """

    running: int
    waiting: int
    weight: float
    on_cards_max: int | None


async def fleet(reader: Reader, *, named: str | None = None) -> FleetView:
    """All cards and all that runs and waits on them; with `named`, the cards of that uuid, label or host alone."""
    cards = await reader.all(_QUERIES["cards"], fresh=timeouts.REPORT_FRESH, named=named)
    workload = await reader.all(_QUERIES["workload"])
    return FleetView(
        cards=tuple(_card(row) for row in cards),
        workload=tuple(Workload.model_validate(row) for row in workload),
    )


async def mine(reader: Reader, account_id: str) -> Mine:
    """One account's part of it."""
    return Mine.model_validate(await reader.one(_QUERIES["mine"], account_id=account_id))


def _card(row: dict[str, Any]) -> CardView:
    silent, cordoned = row.pop("silent"), row.pop("cordoned")
    quarantined, busy = row.pop("quarantined"), row.pop("busy")
    state = next(
        (
            state
            for state, holds in (
                (CardState.SILENT, silent),
                (CardState.CORDONED, cordoned),
                (CardState.QUARANTINED, quarantined),
                (CardState.BUSY, busy),
            )
            if holds
        ),
        CardState.IDLE,
    )
    return CardView.model_validate(row | {"state": state})
