"""`holdfast doctor`: is this installation sound, and if not, what cures it?"""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from infra.settings import Settings
from workers.cli.console import results
from workers.doctor import examination
from workers.doctor.check import Check


def doctor(*, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Check programs, data, parts and versions, each with its cure. Ends with 1 when something is wrong."""
    checks = asyncio.run(examination.examine(Settings()))
    ok = all(check.ok for check in checks)
    if as_json:
        sys.stdout.write(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}) + "\n")
    else:
        results.print(_table(checks))
    raise typer.Exit(0 if ok else 1)


def _table(checks: list[Check]) -> Table:
    table = Table("", "check", "found", "cure")
    for check in checks:
        verdict = "[green]ok[/]" if check.ok else "[red bold]wrong[/]"
        table.add_row(verdict, check.name, escape(check.found), "" if check.ok else escape(check.cure))
    return table
