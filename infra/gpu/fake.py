"""A scripted NVML: the functions of `infra.gpu.interface.Nvml` over cards that a test or a recording describes."""

# ruff: noqa: N802, N803 - the names are NVML's

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1024 * 1024


@dataclass
class FakeCard:
    """One card; change its fields to change what NVML says. `lost` makes it fail, as one fallen off the bus."""

    uuid: str
    name: str = "NVIDIA RTX PRO 6000 Blackwell"
    total_mib: int = 97_887
    used_mib: int = 600
    utilisation_percent: float = 0
    temperature_c: float = 35
    power_w: float = 80
    ecc_errors: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    """Pid and MiB of each; None where the driver doesn't tell."""
    lost: bool = False
    virtual: bool = False
    """A virtual card: utilisation, temperature, power, memory errors, processes and events aren't supported."""


@dataclass
class _EventSet:
    cards: list[FakeCard] = field(default_factory=list)


class FakeNvml:
    """NVML over fake cards."""

    def __init__(self, cards: Sequence[FakeCard], *, installed: bool = True) -> None:
        """Describe the host."""
        self.cards = list(cards)
        self.installed = installed
        self.open = False
        self._faults: list[tuple[FakeCard, int]] = []

    def fault(self, card: FakeCard, xid: int) -> None:
        """A critical fault happens now."""
        self._faults.append((card, xid))

    def nvmlInit(self) -> None:
        """Load."""
        if not self.installed:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        self.open = True

    def nvmlShutdown(self) -> None:
        """Give back."""
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        """How many."""
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        """The card itself is its handle."""
        card = self.cards[index]
        _there(card)
        return card

    def nvmlDeviceGetUUID(self, handle: FakeCard) -> str:
        """Its UUID."""
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeCard) -> str:
        """Its model."""
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: FakeCard) -> Any:
        """Bytes."""
        _there(handle)
        total, used = handle.total_mib * MIB, handle.used_mib * MIB
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeCard) -> Any:
        """Per cent."""
        _supported(handle)
        return SimpleNamespace(gpu=handle.utilisation_percent, memory=0)

    def nvmlDeviceGetTemperature(self, handle: FakeCard, sensor: int) -> Any:
        """Degrees."""
        del sensor
        _supported(handle)
        return handle.temperature_c

    def nvmlDeviceGetPowerUsage(self, handle: FakeCard) -> Any:
        """Milliwatts."""
        _supported(handle)
        return handle.power_w * 1000

    def nvmlDeviceGetTotalEccErrors(self, handle: FakeCard, errorType: int, counterType: int) -> int:
        """Errors."""
        del errorType, counterType
        _supported(handle)
        return handle.ecc_errors

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeCard) -> list[Any]:
        """Processes."""
        _supported(handle)
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)
            for pid, mib in handle.processes
        ]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: FakeCard) -> list[Any]:
        """None draws."""
        _supported(handle)
        return []

    def nvmlDeviceGetSupportedEventTypes(self, handle: FakeCard) -> int:
        """Faults."""
        _supported(handle)
        return int(pynvml.nvmlEventTypeXidCriticalError)

    def nvmlEventSetCreate(self) -> _EventSet:
        """An empty one."""
        return _EventSet()

    def nvmlDeviceRegisterEvents(self, handle: FakeCard, eventTypes: int, eventSet: _EventSet) -> None:
        """Faults of this card too."""
        del eventTypes
        eventSet.cards.append(handle)

    def nvmlEventSetWait_v2(self, eventSet: _EventSet, timeoutms: int) -> Any:
        """The first fault of a registered card."""
        del timeoutms
        for place, (card, xid) in enumerate(self._faults):
            if any(card is registered for registered in eventSet.cards):
                del self._faults[place]
                return SimpleNamespace(device=card, eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=xid)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)

    def nvmlEventSetFree(self, eventSet: _EventSet) -> None:
        """Forget it."""
        eventSet.cards.clear()


class ReplayedNvml(FakeNvml):
    """NVML as it was recorded: each time cards are counted, they are as the recording has them by then.

    A recording has one JSON object a line: first the cards, then frames in the order of their seconds `t`, each
    with fields of a card that changed, and `xid` where one happened. It starts anew when it is over.
    """

    def __init__(self, recording: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read a recording; without one, the shipped one.

        Raises:
            ValueError: It can't be read as one.
        """
        text = recording.read_text() if recording is not None else _shipped()
        try:
            first, *frames = [json.loads(line) for line in text.splitlines() if line.strip()]
            super().__init__([FakeCard(**card) for card in first["cards"]])
            self._frames = [(float(frame.pop("t")), str(frame.pop("uuid")), frame) for frame in frames]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no recording: {error!r}") from error
        self._clock = clock
        self._began = clock()
        self._next = 0

    def nvmlDeviceGetCount(self) -> int:
        """As many as recorded; brings them up to now."""
        while self._frames:
            at, uuid, changed = self._frames[self._next]
            if at > self._clock() - self._began:
                break
            card = next(card for card in self.cards if card.uuid == uuid)
            for name, value in changed.items():
                if name == "xid":
                    self.fault(card, value)
                else:
                    setattr(card, name, value)
            self._next += 1
            if self._next == len(self._frames):
                self._next, self._began = 0, self._clock()
        return super().nvmlDeviceGetCount()


def _shipped() -> str:
    return (resources.files(__package__) / "recording.jsonl").read_text()


def _supported(card: FakeCard) -> None:
    _there(card)
    if card.virtual:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _there(card: FakeCard) -> None:
    if card.lost:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
