"""The CPU as a card, for engines that need no GPU. It says so: model `CPU`, UUID `cpu-…`."""

import hashlib
import socket
from pathlib import Path

import psutil

from infra.gpu.inventory import Card

MIB = 1024 * 1024


class CpuInventory:
    """One card a host: the native engine uses all cores for one run."""

    def __init__(self, home: Path) -> None:
        """Name the card after this host and home, so that two installations on one host are two cards."""
        identity = f"{socket.gethostname()}:{home.resolve()}"
        self._uuid = f"cpu-{hashlib.sha256(identity.encode()).hexdigest()[:12]}-0"

    def cards(self) -> tuple[Card, ...]:
        """See `Inventory.cards`."""
        memory = psutil.virtual_memory()
        return (
            Card(
                uuid=self._uuid,
                label="cpu-0",
                model="CPU",
                memory_total_mib=memory.total // MIB,
                memory_free_mib=memory.available // MIB,
            ),
        )
