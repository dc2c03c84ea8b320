"""The part of `pynvml` that is used, under its own names; `pynvml` and `FakeNvml` both have it."""

# ruff: noqa: N802, N803 - the names are NVML's

from typing import Any, Protocol


class Nvml(Protocol):
    """NVML; handles are opaque."""

    def nvmlInit(self) -> None:
        """Load the driver's library."""
        ...

    def nvmlShutdown(self) -> None:
        """Give it back."""
        ...

    def nvmlDeviceGetCount(self) -> int:
        """How many cards there are."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        """A handle of one."""
        ...

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        """Its UUID."""
        ...

    def nvmlDeviceGetName(self, handle: Any) -> str:
        """Its model."""
        ...

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        """`total`, `free`, `used`, in bytes."""
        ...

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        """`gpu` and `memory`, in per cent."""
        ...

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        """Degrees Celsius; sensor 0 is the chip."""
        ...

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        """Milliwatts."""
        ...

    # The next three name their parameters as `pynvml` does.
    def nvmlDeviceGetTotalEccErrors(self, handle: Any, errorType: int, counterType: int) -> int:
        """Memory errors: type 1 is uncorrected; counter 0 is since the driver was loaded."""
        ...

    def nvmlDeviceRegisterEvents(self, handle: Any, eventTypes: int, eventSet: Any) -> None:
        """From now on put these events of the card into the set."""
        ...

    def nvmlEventSetWait_v2(self, eventSet: Any, timeoutms: int) -> Any:
        """The next event: `device`, `eventType`, `eventData`. Fails with a time-out when none came."""
        ...

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        """Processes that compute on it: `pid`, `usedGpuMemory` in bytes or None."""
        ...

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> list[Any]:
        """Processes that draw on it, likewise."""
        ...

    def nvmlDeviceGetSupportedEventTypes(self, handle: Any) -> int:
        """Events that it can tell, as bits; 8 is a critical fault (Xid)."""
        ...

    def nvmlEventSetCreate(self) -> Any:
        """An empty set of events."""
        ...

    def nvmlEventSetFree(self, eventSet: Any) -> None:
        """Give a set back."""
        ...
