"""What the placer reads and tells: cards and tickets as placement knows them, shares, run times, forecasts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from infra.db import Reader, Tx, load
from workflows.contracts import timeouts
from workflows.contracts.message import Message
from workflows.domain.placement.fleet import Card, Given, Priority, Resident, Share, Standing, Waiting, Work
from workflows.domain.placement.warmth import Arrivals

_QUERIES = load(__package__)

RUN_S_UNKNOWN = 60.0
"""Expected of work of which neither its manifest nor any run says how long it takes. Seconds."""
HALF_S = 150.0
"""Arrivals are counted in two halves of so many seconds."""
BUSY_S_UNKNOWN = 60.0
"""As above, for when a busy card is free."""


class CardRow(Message):
    """A card, with whose generation is on it.

    Attributes:
        card: As placement knows it.
        account_id: Of the generation that has it; None when it has none.
        silent: True when its host's last report is too old. Placement is told apart from the time of it, since
            that moves each second.
    """

    card: Card
    account_id: str | None
    silent: bool


class TicketRow(Message):
    """A waiting generation.

    Attributes:
        waiting: As placement knows it.
        only_card: The card that it was asked of, as canaries are.
        seq: Rises with each ticket, in the order in which they were begun, not that of their commits.
    """

    waiting: Waiting
    only_card: str | None
    seq: int


class RunTime(Message):
    """What was learned of how long work takes on cards.

    Attributes:
        model_id: The model.
        mode: Its mode.
        size_class: Twofold steps of the output's pixels.
        warm: Whether the card had everything loaded.
        runs: How many were seen.
        mean_s: Seconds, moving by a tenth with each run.
        deviation_s: Mean distance from it. Seconds.
    """

    model_id: str
    mode: str
    size_class: int
    warm: bool
    runs: int
    mean_s: float
    deviation_s: float


class Told(Message):
    """What a waiting generation is told."""

    task_id: str
    position: int
    eta_s: float | None
    why: tuple[str, ...]


RunTimes = Mapping[tuple[str, str, int], RunTime]
"""Of warm runs, by model, mode and size class."""


async def cards(reader: Reader, uuids: Sequence[str] | None = None) -> tuple[CardRow, ...]:
    """All cards, or these."""
    rows = await reader.all(
        _QUERIES["cards"], uuids=None if uuids is None else list(uuids), fresh=timeouts.REPORT_FRESH
    )
    return tuple(_card(row) for row in rows)


async def tickets(
    reader: Reader, run_times: RunTimes, task_ids: Sequence[str] | None = None, *, after: int | None = None
) -> tuple[TicketRow, ...]:
    """All who wait, or these of them, or those with a higher number; in the order of their waiting."""
    chosen = None if task_ids is None else list(task_ids)
    rows = await reader.all(_QUERIES["tickets"], task_ids=chosen, after=after)
    return tuple(_ticket(row, run_times) for row in rows)


async def still_waiting(reader: Reader, task_ids: Sequence[str]) -> frozenset[str]:
    """Those of the given that still wait."""
    rows = await reader.all(_QUERIES["still_waiting"], task_ids=list(task_ids))
    return frozenset(row["task_id"] for row in rows)


async def snapshot(reader: Reader) -> tuple[tuple[CardRow, ...], tuple[TicketRow, ...]]:
    """All cards and all who wait. Decisions on it are checked again by `offer`."""
    return await cards(reader), await tickets(reader, {})


async def silent_cards(reader: Reader) -> tuple[str, ...]:
    """Cards whose host has not reported for a while."""
    return tuple(row["uuid"] for row in await reader.all(_QUERIES["silent_cards"], fresh=timeouts.REPORT_FRESH))


async def shares(reader: Reader) -> dict[str, Share]:
    """Shares of accounts that have one of their own."""
    rows = await reader.all(_QUERIES["shares"])
    return {row["account_id"]: Share(row["weight"], row["on_cards_max"]) for row in rows}


async def run_times(reader: Reader) -> tuple[RunTime, ...]:
    """All that was learned."""
    return tuple(RunTime.model_validate(row) for row in await reader.all(_QUERIES["run_times"]))


async def arrivals(reader: Reader) -> dict[str, Arrivals]:
    """What came in the last minutes, by model; canaries don't count."""
    rows = await reader.all(_QUERIES["arrivals"], half=timedelta(seconds=HALF_S))
    return {row["model_id"]: Arrivals(row["earlier"], row["recent"]) for row in rows}


def warm_run_times(learned: Sequence[RunTime]) -> RunTimes:
    """Of warm runs, for `tickets`."""
    return {(each.model_id, each.mode, each.size_class): each for each in learned if each.warm}


async def offer(tx: Tx, given: Given) -> bool:
    """Offer cards of one host: ticket out, lease in, message in the outbox, all or nothing. One statement.

    False when the ticket or any of the cards was gone. The first card runs it, the others are kept for it.
    """
    grant = await tx.value(
        _QUERIES["offer"],
        task_id=given.task_id,
        card_uuids=list(given.cards),
        expected_s=given.expected_s,
        fresh=timeouts.REPORT_FRESH,
        offer=timeouts.OFFER,
    )
    return grant is not None


async def tell(tx: Tx, told: Sequence[Told]) -> None:
    """Write what waiting generations are told, for whoever asks about them. One statement."""
    await tx.run(
        _QUERIES["tell"],
        task_ids=[each.task_id for each in told],
        positions=[each.position for each in told],
        etas=[each.eta_s for each in told],
        whys=["\n".join(each.why) for each in told],
    )


def _card(row: Mapping[str, Any]) -> CardRow:
    now: float = row["now"]
    free_at: float | None = row["free_at"]
    card = Card(
        uuid=row["uuid"],
        label=row["label"],
        host=row["host"],
        engines=frozenset(row["engines"]),
        capabilities=frozenset(row["capabilities"]),
        total_mib=row["vram_total_mib"],
        reported_at=row["reported_at"],
        foreign_mib=row["foreign_mib"],
        residents=tuple(_resident(each) for each in row["residents"]),
        standing=_standing(row),
        busy_until=(free_at or now + BUSY_S_UNKNOWN) if row["busy"] else None,
    )
    return CardRow(card=card, account_id=row["account_id"], silent=row["silent"])


def _standing(row: Mapping[str, Any]) -> Standing:
    if row["cordoned"]:
        return Standing.CORDONED
    return Standing.QUARANTINED if row["quarantined"] else Standing.OPEN


def _resident(said: Mapping[str, Any]) -> Resident:
    return Resident(
        name=said["name"],
        mib=int(said["mib"]),
        load_s=float(said.get("load_s", 0.0)),
        stop_s=float(said.get("stop_s", 0.0)),
        working_mib=int(said.get("working_mib", 0)),
    )


def _ticket(row: Mapping[str, Any], learned: RunTimes) -> TicketRow:
    needs: Mapping[str, Any] = row["work"]
    size = int(needs.get("size_class", 0))
    known = learned.get((row["model_id"], row["mode"], size))
    run_s = known.mean_s if known is not None else float(needs.get("run_s") or RUN_S_UNKNOWN)
    priority = Priority(needs.get("priority", Priority.INTERACTIVE))
    work = Work(
        key="/".join((row["model_id"], row["mode"], str(size), str(needs.get("digest", ""))[:12], priority)),
        capability=row["capability"],
        engine=row["engine"],
        budget_mib=row["vram_budget_mib"],
        run_s=max(run_s, 0.001),
        reserve_mib=int(needs.get("reserve_mib", 0)),
        residents=tuple(_resident(each) for each in needs.get("residents", ())),
        cards=int(needs.get("cards", 1)),
        priority=priority,
    )
    waiting = Waiting(
        task_id=row["task_id"],
        account_id=row["account_id"],
        work=work,
        enqueued_at=row["enqueued_at"],
        came_back_from=frozenset(row["came_back_from"]),
    )
    return TicketRow(waiting=waiting, only_card=row["only_card"], seq=row["seq"])
