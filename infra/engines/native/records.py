"""What the native engine keeps of each run on disk, so that a result survives the process that made it.

A run is a folder: `run.json` is there before the run is accepted, `result.json` once it is over. A folder
with only the first, and no process working on it, is a run whose process died.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.engines.states import RunState

RUN_ID = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")
RETENTION_S = 7 * 24 * 3600
"""A result that nobody fetched is dropped after this; the journal of the host remembers runs as long."""
KEPT_MAX = 64
"""Results kept at most; the oldest go first. Each may be hundreds of MiB."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file in a run's folder."""

    name: str
    sha256: str
    size: int
    mime: str


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run failed: a stable code of `workflows.contracts.failures`, a sentence, and the operator's detail."""

    code: str
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    state: RunState
    files: tuple[ResultFile, ...] = ()
    failure: RunFailure | None = None
    engine_s: float = 0.0
    crashed: bool = False


class Records:
    """All runs of one engine folder."""

    def __init__(self, root: Path) -> None:
        """Make the folder where it isn't."""
        self._root = root / "runs"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def folder(self, run_id: str) -> Path:
        """Where the run's files lie. The id's form is checked, so it can't lead elsewhere.

        Raises:
            ValueError: It isn't an id.
        """
        if not RUN_ID.match(run_id):
            raise ValueError("a run id is up to 128 letters, digits, dots, dashes and underscores")
        return self._root / run_id

    def accept(self, run_id: str, order: dict[str, Any]) -> Path:
        """Record a run before it is started; an earlier end of the same run is dropped.

        Raises:
            OSError: The disk is full or failing; nothing was accepted.
        """
        folder = self.folder(run_id)
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / "result.json").unlink(missing_ok=True)
        _write(folder / "run.json", {"accepted_at": time.time(), "order": order})
        return folder

    def finish(self, run_id: str, result: Result) -> None:
        """Record how a run ended.

        Raises:
            OSError: The disk is full or failing.
        """
        failure = result.failure
        _write(
            self.folder(run_id) / "result.json",
            {
                "state": result.state,
                "files": [[f.name, f.sha256, f.size, f.mime] for f in result.files],
                "failure": failure and [failure.code, failure.message, failure.detail],
                "engine_s": result.engine_s,
                "crashed": result.crashed,
            },
        )

    def find(self, run_id: str) -> Result | None:
        """How a run of which no process knows ended; None when it was never accepted."""
        folder = self.folder(run_id)
        try:
            stored = json.loads((folder / "result.json").read_bytes())
            return Result(
                state=RunState(stored["state"]),
                files=tuple(ResultFile(*file) for file in stored["files"]),
                failure=RunFailure(*stored["failure"]) if stored["failure"] else None,
                engine_s=stored["engine_s"],
                crashed=stored["crashed"],
            )
        except FileNotFoundError:
            return Result(RunState.LOST, crashed=True) if (folder / "run.json").exists() else None
        except (ValueError, KeyError, TypeError):
            return Result(RunState.LOST, crashed=True)  # a damaged record proves no result

    def forget(self, run_id: str) -> None:
        """Drop a run with its files."""
        shutil.rmtree(self.folder(run_id), ignore_errors=True)

    def kept(self) -> tuple[str, ...]:
        """Runs that have a record, oldest first."""
        return tuple(path.name for path in sorted(self._folders(), key=_changed))

    def sweep(self, *, working: frozenset[str], now: float) -> None:
        """Drop what is past its retention or over the bound; never a run that is worked on."""
        idle = sorted((f for f in self._folders() if f.name not in working), key=_changed)
        surplus = max(0, len(idle) - KEPT_MAX)
        for index, folder in enumerate(idle):
            if index < surplus or now - _changed(folder) > RETENTION_S:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> Iterator[Path]:
        return (path for path in self._root.iterdir() if RUN_ID.match(path.name))


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _write(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all, and durable when this returns."""
    partial = path.with_suffix(".part")
    with partial.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
