"""The CPU as cards, for engines that need no GPU. They say so: model `CPU`, UUID `cpu-…`."""

import hashlib
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

from infra.gpu.inventory import Card

MIB = 1024 * 1024


class CpuInventory:
    """One card a host, since a run uses all cores that it may; or several, each with its part of the memory."""

    def __init__(self, home: Path, *, count: int = 1, engines: Mapping[str, int] | None = None) -> None:
        """Name the cards after this host and home, so that two installations on one host share none.

        Args:
            home: Of the installation.
            count: How many cards the CPU is.
            engines: The process of each card's engine, read anew each time.
        """
        identity = f"{socket.gethostname()}:{home.resolve()}"
        name = hashlib.sha256(identity.encode()).hexdigest()[:12]
        self._uuids = tuple(f"cpu-{name}-{number}" for number in range(count))
        self._engines = {} if engines is None else engines

    def cards(self) -> tuple[Card, ...]:
        """See `Inventory.cards`."""
        memory = psutil.virtual_memory()
        count = len(self._uuids)
        return tuple(
            Card(
                uuid=uuid,
                label=f"cpu-{number}",
                model="CPU",
                memory_total_mib=memory.total // MIB // count,
                memory_free_mib=memory.available // MIB // count,
            )
            for number, uuid in enumerate(self._uuids)
        )

    def ours_mib(self, card_uuid: str) -> int | None:
        """See `Inventory.ours_mib`: what the card's engine has in memory."""
        pid = self._engines.get(card_uuid)
        if pid is None or card_uuid not in self._uuids:
            return None
        try:
            resident: int = psutil.Process(pid).memory_info().rss
        except psutil.Error:
            return None  # it ended
        return resident // MIB
