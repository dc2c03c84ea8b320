"""A scripted NVML: the functions of `infra.gpu.nvml.Nvml` over cards that a test describes."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass
class FakeCard:
    """One card; change its fields to change what NVML says. `lost` makes it fail, as one fallen off the bus."""

    uuid: str
    name: str = "NVIDIA RTX PRO 6000 Blackwell"
    total_mib: int = 97_887
    used_mib: int = 600
    utilisation_percent: int = 0
    temperature_c: int = 35
    processes: int = 0
    lost: bool = False
    virtual: bool = False
    """A virtual card: utilisation, temperature and processes aren't supported."""


class FakeNvml:
    """NVML over fake cards."""

    def __init__(self, cards: Sequence[FakeCard], *, installed: bool = True) -> None:
        """Describe the host."""
        self.cards = list(cards)
        self.installed = installed
        self.open = False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        """Load."""
        if not self.installed:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        """Give back."""
        self.open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
        """How many."""
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802 - NVML's name
        """The card itself is its handle."""
        card = self.cards[index]
        if card.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return card

    def nvmlDeviceGetUUID(self, handle: FakeCard) -> str:  # noqa: N802 - NVML's name
        """Its UUID."""
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeCard) -> str:  # noqa: N802 - NVML's name
        """Its model."""
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: FakeCard) -> Any:  # noqa: N802 - NVML's name
        """Bytes."""
        mib = 1024 * 1024
        total, used = handle.total_mib * mib, handle.used_mib * mib
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeCard) -> Any:  # noqa: N802 - NVML's name
        """Per cent."""
        self._supported(handle)
        return SimpleNamespace(gpu=handle.utilisation_percent, memory=0)

    def nvmlDeviceGetTemperature(self, handle: FakeCard, sensor: int) -> int:  # noqa: N802 - NVML's name
        """Degrees."""
        del sensor
        self._supported(handle)
        return handle.temperature_c

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeCard) -> list[Any]:  # noqa: N802 - NVML's name
        """Processes."""
        self._supported(handle)
        return [SimpleNamespace(pid=1000 + n, usedGpuMemory=None) for n in range(handle.processes)]

    @staticmethod
    def _supported(handle: FakeCard) -> None:
        if handle.virtual:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
