"""`holdfast sweep`: open holds without a workflow, and workflows without a hold."""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from infra.db import Database, DatabaseTrouble
from infra.temporal.connection import connect
from workers import sweep as sweeping
from workers.cli.console import fail, results, stack_settings


def sweep(*, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Take lost generations up again and end workflows that hold nothing. Ends with 1 when a person is needed.

    Runs by itself at every start and once a minute; by hand it is for the time after Postgres or Temporal was
    restored.
    """
    settings = stack_settings()

    async def work() -> sweeping.Swept:
        client = await connect(settings)
        async with Database.from_settings(settings, application="sweep", pool_max=2) as database:
            return await sweeping.sweep(database, client)

    try:
        found = asyncio.run(work())
    except (RuntimeError, sweeping.TemporalSilentError, DatabaseTrouble) as error:
        fail(f"The sweep could not run: {error}", "Is the stack up? holdfast status")
    if as_json:
        sys.stdout.write(json.dumps({"ok": not found.contradictions, **asdict(found)}) + "\n")
    else:
        results.print(f"{found.looked_at} generations hold credits.")
        _list("taken up again, since no workflow ran", found.resumed)
        _list("workflows ended, since they held nothing", found.terminated)
        _list("hold credits though their workflow completed; decide by hand", found.contradictions)
    raise typer.Exit(1 if found.contradictions else 0)


def _list(meaning: str, ids: tuple[str, ...]) -> None:
    if ids:
        results.print(f"{len(ids)} {meaning}:")
    for task_id in ids:
        results.print(f"  {task_id}")
