"""Leases of cards: `offered → accepted → ended`, each with a fence that only rises."""

from infra.leases.hosts import check_fence, open_order, record_report
from infra.leases.placing import (
    OUTBOX_CHANNEL,
    PLACE_CHANNEL,
    accept,
    lapse,
    requeue,
    withdraw,
)
from infra.leases.pool import (
    CardRow,
    RunTime,
    RunTimes,
    TicketRow,
    Told,
    cards,
    offer,
    run_times,
    shares,
    silent_cards,
    snapshot,
    tell,
    tickets,
    warm_run_times,
)

__all__ = [
    "OUTBOX_CHANNEL",
    "PLACE_CHANNEL",
    "CardRow",
    "RunTime",
    "RunTimes",
    "TicketRow",
    "Told",
    "accept",
    "cards",
    "check_fence",
    "lapse",
    "offer",
    "open_order",
    "record_report",
    "requeue",
    "run_times",
    "shares",
    "silent_cards",
    "snapshot",
    "tell",
    "tickets",
    "warm_run_times",
    "withdraw",
]
