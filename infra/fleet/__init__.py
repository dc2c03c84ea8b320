"""The fleet as people look at it: cards, what runs and waits, and whose it is; and what operators do with it."""

from infra.fleet.control import (
    ObservedMemory,
    cordon,
    observe_memory,
    observed_memory,
    quarantine,
    set_share,
)
from infra.fleet.reading import CardState, CardView, FleetView, Mine, Workload, fleet, mine

__all__ = [
    "CardState",
    "CardView",
    "FleetView",
    "Mine",
    "ObservedMemory",
    "Workload",
    "cordon",
    "fleet",
    "mine",
    "observe_memory",
    "observed_memory",
    "quarantine",
    "set_share",
]
