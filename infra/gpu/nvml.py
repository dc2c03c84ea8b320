"""GPUs through NVML."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import pynvml
import structlog

from infra.gpu.interface import Nvml
from infra.gpu.inventory import Card, IsOurs

MIB = 1024 * 1024
FOREIGN_STEP_MIB = 64
"""Foreign memory is told in steps, rounded up: placement is woken by each change of it."""
EVENTS_MAX = 100
"""Faults read in one look; a card that fails without end must not keep us reading."""

T = TypeVar("T")
log = structlog.get_logger(__name__)


class NvmlInventory:
    """The GPUs of this host; none where NVML isn't there."""

    def __init__(self, nvml: Nvml = pynvml, *, is_ours: IsOurs | None = None) -> None:
        """Load NVML now, once: loading takes some 100 ms, and asking takes one.

        Args:
            nvml: The real one, or the shipped fake.
            is_ours: Tells our processes from others; without it all are others.
        """
        self._nvml = nvml
        self._is_ours = is_ours or (lambda _pid: False)
        self._foreign: dict[str, int] = {}
        self._handles: dict[str, Any] = {}
        self._xids: dict[str, int] = {}
        self._events: Any = None
        try:
            nvml.nvmlInit()
            self._usable = True
        except pynvml.NVMLError as error:
            log.info("no_nvml", reason=str(error))
            self._usable = False
            return
        self._events = self._watched()

    def cards(self) -> tuple[Card, ...]:
        """See `Inventory.cards`. A card that fails to answer, as one that fell off the bus, is left out."""
        if not self._usable:
            return ()
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            log.warning("nvml_failed", reason=str(error))
            return ()
        self._read_events()
        found = (self._card(index) for index in range(count))
        return tuple(card for card in found if card is not None)

    def ours_mib(self, card_uuid: str) -> int | None:
        """See `Inventory.ours_mib`: what is used, less what was foreign at the last full look. One call."""
        handle = self._handles.get(card_uuid)
        if not self._usable or handle is None:
            return None
        memory = _told(lambda: self._nvml.nvmlDeviceGetMemoryInfo(handle))
        return None if memory is None else max(0, memory.used // MIB - self._foreign.get(card_uuid, 0))

    def close(self) -> None:
        """Give NVML back."""
        if not self._usable:
            return
        self._usable = False
        if self._events is not None:
            _told(lambda: self._nvml.nvmlEventSetFree(self._events))
        self._nvml.nvmlShutdown()

    def _card(self, index: int) -> Card | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except pynvml.NVMLError as error:
            log.warning("card_failed", index=index, reason=str(error))
            return None
        self._handles[uuid] = handle
        rates = _told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        power = _told(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        processes = self._processes(handle)
        self._foreign[uuid] = 0 if processes is None else self._foreign_mib(processes, memory.used // MIB)
        return Card(
            uuid=uuid,
            label=f"gpu-{index}",
            model=model,
            memory_total_mib=memory.total // MIB,
            memory_free_mib=memory.free // MIB,
            utilisation=None if rates is None else rates.gpu / 100,
            temperature_c=_told(lambda: nvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
            power_w=None if power is None else power / 1000,
            ecc_errors=_told(
                lambda: nvml.nvmlDeviceGetTotalEccErrors(
                    handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
                )
            ),
            xid=self._xids.get(uuid),
            processes=None if processes is None else len(processes),
            foreign_mib=min(_in_steps(self._foreign[uuid]), max(0, memory.total // MIB)),
        )

    def _processes(self, handle: Any) -> dict[int, int | None] | None:
        """Memory by process, in MiB, None where it can't be told; computing and drawing ones alike."""
        computing = _told(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        drawing = _told(lambda: self._nvml.nvmlDeviceGetGraphicsRunningProcesses(handle))
        if computing is None and drawing is None:
            return None
        both = [*(computing or ()), *(drawing or ())]
        return {one.pid: None if one.usedGpuMemory is None else one.usedGpuMemory // MIB for one in both}

    def _foreign_mib(self, processes: dict[int, int | None], used_mib: int) -> int:
        """Memory of others. Where one's can't be told, as in a container, all that isn't ours counts as theirs."""
        foreign = {pid: mib for pid, mib in processes.items() if not self._is_ours(pid)}
        if None not in foreign.values():
            return _sum(foreign.values())
        return max(0, used_mib - _sum(mib for pid, mib in processes.items() if pid not in foreign))

    def _watched(self) -> Any:
        """A set of events that critical faults of all cards are put into; None where that isn't supported."""
        nvml = self._nvml
        events = _told(nvml.nvmlEventSetCreate)
        if events is None:
            return None
        for index in range(_told(nvml.nvmlDeviceGetCount) or 0):
            handle = _told(partial(nvml.nvmlDeviceGetHandleByIndex, index))
            supported = _told(partial(nvml.nvmlDeviceGetSupportedEventTypes, handle))
            if (supported or 0) & pynvml.nvmlEventTypeXidCriticalError:
                _told(partial(nvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events))
        return events

    def _read_events(self) -> None:
        """Read what has happened; waits for nothing."""
        for _ in range(EVENTS_MAX if self._events is not None else 0):
            event = _told(lambda: self._nvml.nvmlEventSetWait_v2(self._events, 0))
            if event is None:
                return
            uuid = _told(partial(self._nvml.nvmlDeviceGetUUID, event.device))
            log.error("card_fault", card=uuid, xid=event.eventData)
            if uuid is not None:
                self._xids[uuid] = int(event.eventData)


def _told(ask: Callable[[], T]) -> T | None:
    """What a card says; None when it doesn't support the question, as virtual ones often don't, or has nothing."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None


def _sum(sizes: Iterable[int | None]) -> int:
    return sum(size or 0 for size in sizes)


def _in_steps(mib: int) -> int:
    return -(-mib // FOREIGN_STEP_MIB) * FOREIGN_STEP_MIB
