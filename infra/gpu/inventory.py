"""The inventory port: the cards of this host, as they are right now."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Card:
    """One card.

    Attributes:
        uuid: NVML's UUID; `cpu-<host>-<n>` for the CPU.
        label: The public name, as `gpu-0`.
        model: As the vendor names it; `CPU` for the CPU.
        memory_total_mib: MiB; for the CPU, what may be used of main memory.
        memory_free_mib: MiB, right now.
        utilisation: 0 to 1; None when it can't be told.
        temperature_c: Degrees Celsius; None when it can't be told.
        processes: Processes that use it, ours included; None when it can't be told.
    """

    uuid: str
    label: str
    model: str
    memory_total_mib: int
    memory_free_mib: int
    utilisation: float | None = None
    temperature_c: int | None = None
    processes: int | None = None


class Inventory(Protocol):
    """Where cards are looked up. Blocking, milliseconds."""

    def cards(self) -> tuple[Card, ...]:
        """All cards, in a stable order; empty when there are none or they can't be asked."""
        ...
