"""The fleet as people look at it: cards, what runs and waits, and whose it is; and what operators do with it."""

from infra.fleet.control import (
    ObservedMemory,
    cordon,
    observed_memory,
    quarantine,
    set_share,
)
from infra.fleet.reading import (
    CardState,
    CardView,
    ClaimView,
    FleetView,
    Mine,
    Workload,
    fleet,
    known,
    mine,
    show_trouble,
)

__all__ = [
    "CardState",
    "CardView",
    "ClaimView",
    "FleetView",
    "Mine",
    "ObservedMemory",
    "Workload",
    "cordon",
    "fleet",
    "known",
    "mine",
    "observed_memory",
    "quarantine",
    "set_share",
    "show_trouble",
]
