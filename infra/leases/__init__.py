"""Leases of cards: `offered → accepted → ended`, each with a fence that only rises."""

from infra.leases.hosts import check_fence, cordon, open_order, record_report
from infra.leases.placing import (
    OUTBOX_CHANNEL,
    PLACE_CHANNEL,
    accept,
    lapse,
    offer,
    requeue,
    snapshot,
    withdraw,
)

__all__ = [
    "OUTBOX_CHANNEL",
    "PLACE_CHANNEL",
    "accept",
    "check_fence",
    "cordon",
    "lapse",
    "offer",
    "open_order",
    "record_report",
    "requeue",
    "snapshot",
    "withdraw",
]
