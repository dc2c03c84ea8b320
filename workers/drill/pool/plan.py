"""How large a pool drill is. Imports nothing heavy: the command line reads it for every command."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool drill.

    Attributes:
        seconds: How long is killed.
        seed: Decides whom, when and for how long. What each kill hits depends on the machine all the same.
        hosts: Host agents, each with a home of its own.
        cards: CPU cards of each.
        accounts: Callers.
        in_flight: Generations that each account keeps open.
        gap_s: Least and longest time between two kills.
        engine_share: Part of the kills that take one of the host's engines too.
    """

    seconds: float
    seed: int
    hosts: int = 4
    cards: int = 2
    accounts: int = 4
    in_flight: int = 4
    gap_s: tuple[float, float] = (1.0, 8.0)
    engine_share: float = 0.35
