"""The engine port: how a host talks to whatever runs a model.

An engine is another process that may crash, hang, lose its memory or answer late. So no call here
raises for anything that an engine does: each answers a `Sighting`, and what can't be known is said
to be `SILENT`. `attach` comes before `submit`, always: no engine is trusted to de-duplicate.

A driver for ComfyUI fits as follows: the prompt id is a UUID derived from `run_id`; `attach` looks at
the queue and then at the history; an id that was seen and is in neither is `LOST`; `follow` polls and
uses the socket as a hint; the boot identity is the pid and start time of the supervised process.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infra.engines.states import RunState
from workflows.contracts.failures import Code
from workflows.contracts.hosts import Loaded

Parameter = str | int | float | bool


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """Why a run failed.

    Attributes:
        code: What the caller is told.
        message: A sentence for the caller, without paths or the engine's own text.
        detail: For the operator's log.
    """

    code: Code
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at a run.

    Attributes:
        run_id: The run.
        state: What was seen.
        fraction: 0 to below 1 while it runs; 1 only when finished.
        boot_id: The engine process that answered; empty when silent.
        failure: With FAILED, and with SILENT where something can be told.
        engine_s: Seconds the engine worked, when it is over.
        crashed: With LOST: True when the engine died by itself, False when it was told to stop.
        refused: With FAILED: True when it wasn't accepted, so that nothing ran.
    """

    run_id: str
    state: RunState
    fraction: float = 0.0
    boot_id: str = ""
    failure: EngineFailure | None = None
    engine_s: float | None = None
    crashed: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """What a result has to be, as far as an engine needs to know."""

    role: str
    mime: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Submission:
    """A run to start.

    Attributes:
        run_id: Ours; the same id never runs twice while the engine can help it.
        capability: As `image_upscale`.
        mode: One of the model's modes.
        parameters: Checked values.
        inputs: Files on this host, in order; they stay until the run is over.
        outputs: What is asked for, in order.
    """

    run_id: str
    capability: str
    mode: str
    parameters: Mapping[str, Parameter]
    inputs: tuple[Path, ...]
    outputs: tuple[OutputSpec, ...]


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One file of a result: regular, inside the engine's own folder, with its digest taken here.

    `index` is the place of the output that it answers, among those asked for. A driver that can't tell counts
    the engine's files in their order.
    """

    path: Path
    sha256: str
    size: int
    mime: str
    index: int


@dataclass(frozen=True, slots=True)
class Collection:
    """What there is of a finished run's result, in the order asked for.

    Attributes:
        files: Those that can be used; fewer than asked for when the engine left some out.
        failure: Why there is nothing to use: such a run is made again.
        unusable: Places of files that the engine announced and that aren't what it said, when others are good.
    """

    files: tuple[OutputFile, ...] = ()
    failure: EngineFailure | None = None
    unusable: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """An engine's own state.

    Attributes:
        boot_id: New with each start of its process.
        version: Of its code; a driver restarts an idle engine of another version.
        pid: Its process, where it is on this host.
        runs: Runs it works on or has queued.
        kept: Runs whose results it keeps.
        residents: What it has loaded, in the order of last use, oldest first.
    """

    boot_id: str
    version: str
    pid: int | None
    runs: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    residents: tuple[Loaded, ...] = ()


class Engine(Protocol):
    """One engine. Calls are bounded in time by the driver and safe to repeat."""

    @property
    def kind(self) -> str:
        """As `native`."""
        ...

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What it can be asked for."""
        ...

    @property
    def keeps_records(self) -> bool:
        """True when ABSENT proves that a run was never accepted, also across the engine's own restarts."""
        ...

    async def submit(self, submission: Submission) -> Sighting:
        """Start a run. Known already: the same as `attach`, unless LOST, which starts it again.

        SILENT means that it may have been accepted.
        """
        ...

    async def attach(self, run_id: str) -> Sighting:
        """Look for a run; starts nothing."""
        ...

    async def follow(self, seen: Sighting, *, wait_s: float) -> Sighting:
        """The next sighting of another state than `seen`'s; after `wait_s` seconds whatever is seen then.

        A driver may answer earlier where only the fraction differs.
        """
        ...

    async def cancel(self, run_id: str) -> Sighting:
        """Tell the engine to stop a run. The state answered is the truth: only CANCELED means that it is."""
        ...

    async def collect(self, run_id: str, into: Path) -> Collection:
        """The files of a FINISHED run, checked; a driver that has to fetch them writes into `into`."""
        ...

    async def forget(self, run_id: str) -> None:
        """The result is delivered or unwanted; the engine may drop it."""
        ...

    async def load(self, name: str) -> bool:
        """Load a resident ahead of the work that wants it; True when it is loaded. Only an idle engine does."""
        ...

    async def free(self, name: str | None = None) -> bool:
        """Drop a resident, or all, and give the memory back; True when it is gone. Only an idle engine does."""
        ...

    async def probe(self) -> Probe | None:
        """The engine's state; None when it doesn't answer."""
        ...


class EngineKeeper(Protocol):
    """Whoever keeps an engine's process alive on this host."""

    @property
    def engine(self) -> Engine:
        """The engine that it keeps."""
        ...

    async def keep(self) -> None:
        """Start the engine or adopt the one that runs, again whenever it ends. Runs until canceled.

        Being canceled leaves the engine alone: the next agent adopts it.
        """
        ...

    async def restart(self) -> None:
        """End the engine by force and start it anew; its runs are LOST after that."""
        ...
