"""Reading the fleet."""

from enum import StrEnum
from typing import Any

from infra import metrics
from infra.db import Reader, load
from workflows.contracts import timeouts
from workflows.contracts.hosts import RefusedOrder, Telemetry
from workflows.contracts.message import Message
from workflows.domain.placement.capable import Known

_QUERIES = load(__package__)


class CardState(StrEnum):
    """What a card is doing, the most telling first."""

    SILENT = "silent"
    UNFIT = "unfit"
    """It reported nothing that can be, several times in a row."""
    CORDONED = "cordoned"
    QUARANTINED = "quarantined"
    BUSY = "busy"
    IDLE = "idle"


class ClaimView(Message):
    """A claim of a card by a host that doesn't own it.

    Attributes:
        host: Its name.
        host_id: Its identity.
        reason: Why it was refused.
        times: How often.
        age_s: Seconds since the last time.
    """

    host: str
    host_id: str
    reason: str
    times: int
    age_s: float


class RefusedOrderView(RefusedOrder):
    """An order that a card's host refused, and how long ago it said so."""

    age_s: float


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
        nonsense: What its host told last and can't be; its other figures are then the last good ones.
        claims: Who else claims it, within the last hour.
        refused_order: The last order that its host refused, within the last hour.
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
    nonsense: str | None = None
    claims: tuple[ClaimView, ...] = ()
    refused_order: RefusedOrderView | None = None


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


async def known(reader: Reader) -> tuple[Known, ...]:
    """Cards that were heard of within the last day, whatever they do now."""
    return tuple(
        Known(
            host=row["host"],
            engines=frozenset(row["engines"]),
            capabilities=frozenset(row["capabilities"]),
            total_mib=row["vram_total_mib"],
            count=row["count"],
        )
        for row in await reader.all(_QUERIES["known"])
    )


async def mine(reader: Reader, account_id: str) -> Mine:
    """One account's part of it."""
    return Mine.model_validate(await reader.one(_QUERIES["mine"], account_id=account_id))


async def show_trouble(reader: Reader) -> None:
    """Show how many cards can't be believed, by what is wrong, to whoever reads metrics."""
    row = await reader.one(_QUERIES["trouble"])
    metrics.show("cards_in_trouble", [({"kind": kind}, count) for kind, count in (row or {}).items()])


def _card(row: dict[str, Any]) -> CardView:
    silent, cordoned, unfit = row.pop("silent"), row.pop("cordoned"), row.pop("unfit")
    quarantined, busy = row.pop("quarantined"), row.pop("busy")
    state = next(
        (
            state
            for state, holds in (
                (CardState.SILENT, silent),
                (CardState.UNFIT, unfit),
                (CardState.CORDONED, cordoned),
                (CardState.QUARANTINED, quarantined),
                (CardState.BUSY, busy),
            )
            if holds
        ),
        CardState.IDLE,
    )
    return CardView.model_validate(row | {"state": state})
