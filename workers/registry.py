"""Which queue has which workflows and activities: the only list.

Classes are named, not imported, so that a process loads no more than what it runs: the media worker's
codecs have no place in the orchestrator's memory.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from workflows.contracts import queues

CARD = "card"
"""Stands for every card's own queue, see `ids.card_queue`."""
LOOK = "look"
"""Stands for every card's queue of questions, see `ids.look_queue`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What runs on one kind of queue.

    Attributes:
        workflows: As `module:class`.
        activities: As `module:class`; an object of each gives its activities by `all()`.
    """

    workflows: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()


REGISTRY: dict[str, Registered] = {
    queues.ORCHESTRATOR: Registered(
        workflows=(
            "workflows.definitions.generation:GenerationWorkflow",
            "workflows.definitions.sweep:SweepWorkflow",
        ),
        activities=(
            "activities.ledger:LedgerActivities",
            "activities.placement:PlacementActivities",
            "activities.evidence:EvidenceActivities",
        ),
    ),
    queues.SWEEP: Registered(activities=("activities.sweep:SweepActivities",)),
    queues.MEDIA: Registered(
        activities=("activities.media:MediaActivities", "activities.evidence:StoreActivities")
    ),
    CARD: Registered(activities=("activities.engine:EngineActivities",)),
    LOOK: Registered(activities=("activities.journal:JournalActivities",)),
}


def find(name: str) -> Any:
    """The class behind `module:class`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
