"""`holdfast test` and `holdfast check`: what must be green before a change goes in."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import typer

from infra.settings import PROJECT
from workers.cli.console import fail, steps

_BIN = Path(sys.executable).parent
WHOLE = ("--durations=15", "--numprocesses=2", "--dist=loadfile")
"""Of the whole run: two at once, since most tests wait for a server more than they work.

Tests of a file stay together, so that its servers are started once."""


@dataclass(frozen=True, slots=True)
class Check:
    """One tool and how it is called."""

    name: str
    argv: tuple[str, ...]


CHECKS = (
    Check("format", (str(_BIN / "ruff"), "format", "--check", ".")),
    Check("lint", (str(_BIN / "ruff"), "check", ".")),
    Check("types", (str(_BIN / "mypy"),)),
    Check("rooms", (str(_BIN / "lint-imports"),)),
    Check("house", (sys.executable, "-m", "pytest", "-q", "tests/house")),
)


def test(context: typer.Context) -> None:
    """Run the checks and all tests, or just the tests that the arguments name (pytest's own)."""
    _needs_checkout()
    if not context.args:
        check()
    argv = [sys.executable, "-m", "pytest", *(context.args or WHOLE)]
    raise typer.Exit(subprocess.run(argv, cwd=PROJECT, check=False).returncode)


def check() -> None:
    """Format, lint, types, rooms and house rules, each with its time."""
    _needs_checkout()
    failed = []
    for one in CHECKS:
        began = time.monotonic()
        done = subprocess.run(one.argv, cwd=PROJECT, check=False, capture_output=True, text=True)
        verdict = "[green]ok[/]" if done.returncode == 0 else "[red]failed[/]"
        steps.print(f"{one.name:<8} {verdict}  {time.monotonic() - began:.1f} s")
        if done.returncode != 0:
            failed.append(one.name)
            steps.print(done.stdout + done.stderr, markup=False)
    if failed:
        fail(f"Failed: {', '.join(failed)}", "Most of format and lint: ruff format . && ruff check --fix .")


def _needs_checkout() -> None:
    if not (PROJECT / "tests").is_dir():
        fail("Tests come with the checkout, not with the installed package.", "Run ./dev test in a checkout.")
