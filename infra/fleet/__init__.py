"""The fleet as people look at it: cards, what runs and waits on them, and whose it is. Reads only."""

from infra.fleet.reading import CardView, FleetView, Mine, Workload, fleet, mine

__all__ = ["CardView", "FleetView", "Mine", "Workload", "fleet", "mine"]
