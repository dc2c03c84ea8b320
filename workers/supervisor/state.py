"""What the supervisor tells: a small file, replaced whole at each change, read by the command line."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import psutil

SAME_TIME_S = 0.05
"""Creation times are rounded to clock ticks of 10 ms, and the boot time that they count from may be corrected."""

Condition = Literal["waiting", "starting", "up", "restarting", "stopped"]


@dataclass(frozen=True, slots=True)
class PartState:
    """One part.

    Attributes:
        name: As `orchestrator`.
        condition: What it is doing.
        pid: Of its process; None when there is none.
        started_at: The process' creation time, in seconds since 1970: with the pid, its identity.
        restarts: How often it died since the stack came up.
        note: Why it died last, or what it waits for.
    """

    name: str
    condition: Condition
    pid: int | None = None
    started_at: float | None = None
    restarts: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class StackState:
    """All of it.

    Attributes:
        pid: The supervisor's.
        started_at: Its creation time.
        ready: True once a generation could be made, apart from the models' canaries.
        step: What the supervisor is doing, for people.
        failure: Why it gave up; empty while it hasn't.
        parts: In the order of starting.
    """

    pid: int
    started_at: float
    ready: bool = False
    step: str = ""
    failure: str = ""
    parts: tuple[PartState, ...] = field(default=())

    @property
    def alive(self) -> bool:
        """Whether that very supervisor runs now."""
        return is_same_process(self.pid, self.started_at)


def is_same_process(pid: int, started_at: float) -> bool:
    """Whether `pid` is still the process it was, and not another that got its number."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started_at) < SAME_TIME_S and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def write(path: Path, state: StackState) -> None:
    """Replace the file."""
    staged = path.with_suffix(f".{os.getpid()}")
    staged.write_text(json.dumps(asdict(state)))
    staged.replace(path)


def read(path: Path) -> StackState | None:
    """The last state written; None when there is none, or it isn't ours to read."""
    try:
        raw = json.loads(path.read_text())
        parts = tuple(PartState(**part) for part in raw.pop("parts"))
        return StackState(**raw, parts=parts)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
