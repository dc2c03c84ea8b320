"""The inventory port: the cards of this host, as they are right now."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

IsOurs = Callable[[int], bool]
"""Whether a process is one of ours: an engine of this host, its child, or the agent itself."""


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
        power_w: Watts; None when it can't be told.
        ecc_errors: Uncorrected memory errors since the driver was loaded; None when it can't be told.
        xid: The last critical fault since this agent watches; None without any, or when it can't be told.
        processes: Processes that use it, ours included; None when it can't be told.
        foreign_mib: Memory of processes that aren't ours. MiB.
        nonsense: What was told and can't be; the other figures are then the last good ones.
    """

    uuid: str
    label: str
    model: str
    memory_total_mib: int
    memory_free_mib: int
    utilisation: float | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    ecc_errors: int | None = None
    xid: int | None = None
    processes: int | None = None
    foreign_mib: int = 0
    nonsense: tuple[str, ...] = ()


class Inventory(Protocol):
    """Where cards are looked up. Blocking, milliseconds."""

    def cards(self) -> tuple[Card, ...]:
        """All cards, in a stable order; empty when there are none or they can't be asked."""
        ...

    def ours_mib(self, card_uuid: str) -> int | None:
        """Memory that we use on a card, in MiB; None when it isn't of this inventory or can't be told.

        Quick: asked some times a second while something runs.
        """
        ...
