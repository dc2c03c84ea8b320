"""GPUs through NVML. `Nvml` names the few functions that are used; `pynvml` and `FakeNvml` both have them."""

from typing import Any, Protocol

import pynvml
import structlog

from infra.gpu.inventory import Card

MIB = 1024 * 1024

log = structlog.get_logger(__name__)


class Nvml(Protocol):
    """The part of `pynvml` that is used, under its own names; handles are opaque."""

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        """Load the driver's library."""
        ...

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        """Give it back."""
        ...

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
        """How many cards there are."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - NVML's name
        """A handle of one."""
        ...

    def nvmlDeviceGetUUID(self, handle: Any) -> str:  # noqa: N802 - NVML's name
        """Its UUID."""
        ...

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - NVML's name
        """Its model."""
        ...

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802 - NVML's name
        """`total`, `free`, `used`, in bytes."""
        ...

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:  # noqa: N802 - NVML's name
        """`gpu` and `memory`, in per cent."""
        ...

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:  # noqa: N802 - NVML's name
        """Degrees Celsius; sensor 0 is the chip."""
        ...

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:  # noqa: N802 - NVML's name
        """Processes with a context on it."""
        ...


class NvmlInventory:
    """The GPUs of this host; none where NVML isn't there."""

    def __init__(self, nvml: Nvml = pynvml) -> None:
        """Load NVML now, once: loading takes some 100 ms, and asking takes one."""
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            self._usable = True
        except pynvml.NVMLError as error:
            log.info("no_nvml", reason=str(error))
            self._usable = False

    def cards(self) -> tuple[Card, ...]:
        """See `Inventory.cards`. A card that fails to answer, as one that fell off the bus, is left out."""
        if not self._usable:
            return ()
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            log.warning("nvml_failed", reason=str(error))
            return ()
        found = (self._card(index) for index in range(count))
        return tuple(card for card in found if card is not None)

    def close(self) -> None:
        """Give NVML back."""
        if self._usable:
            self._nvml.nvmlShutdown()
            self._usable = False

    def _card(self, index: int) -> Card | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except pynvml.NVMLError as error:
            log.warning("card_failed", index=index, reason=str(error))
            return None
        rates = _told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        return Card(
            uuid=uuid,
            label=f"gpu-{index}",
            model=model,
            memory_total_mib=memory.total // MIB,
            memory_free_mib=memory.free // MIB,
            utilisation=None if rates is None else rates.gpu / 100,
            temperature_c=_told(lambda: nvml.nvmlDeviceGetTemperature(handle, 0)),
            processes=_told(lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
        )


def _told(ask: Any) -> Any:
    """What a card says; None when it doesn't support the question, as virtual ones often don't."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None
