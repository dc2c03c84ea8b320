"""`holdfast reconcile`: the sweep, by hand."""

import asyncio
import json
import sys
from itertools import groupby
from typing import Annotated

import typer

from infra.db import Database, DatabaseTrouble
from infra.storage.store import BlobStore, StoreAwayError
from infra.temporal.connection import connect
from workers import sweep as sweeping
from workers.cli.console import fail, results, stack_settings
from workers.cli.people import actor
from workflows.contracts.sweep import Finding, SweepOrder, SweepReport


def reconcile(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; nothing changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find where money, workflows and bytes disagree, and mend it by rule. Ends with 1 when a person is needed.

    Runs by itself at every start and as a Temporal schedule; by hand it is for the time after Postgres, Temporal
    or the store was restored. It needs no worker.
    """
    settings = stack_settings()

    async def work() -> SweepReport:
        client = await connect(settings)
        store = BlobStore.from_settings(settings)
        async with Database.from_settings(settings, application="reconcile", pool_max=2) as database:
            order = SweepOrder(dry_run=dry_run, actor=actor())
            return await sweeping.sweep(database, client, order, store=store)

    try:
        found = asyncio.run(work())
    except (RuntimeError, sweeping.TemporalSilentError, DatabaseTrouble, StoreAwayError) as error:
        fail(f"The sweep could not run: {error}", "Is the stack up? holdfast status")
    needed = found.for_persons
    if as_json:
        sys.stdout.write(json.dumps({"ok": not needed, **found.model_dump(mode="json")}) + "\n")
    else:
        _tell(found)
    raise typer.Exit(1 if needed else 0)


def _tell(found: SweepReport) -> None:
    looked = ", ".join(f"{count} {step}" for step, count in found.looked_at.items())
    results.print(f"Looked at {looked}." + (" Nothing was changed." if found.dry_run else ""))
    if not found.findings:
        results.print("Nothing is wrong.")
    for kind, some in groupby(found.findings, key=lambda finding: finding.kind):
        results.print(f"{kind.value}:" + (" a person has to decide" if kind.needs_a_person else ""))
        for finding in some:
            results.print(f"  {finding.subject}  {finding.detail}; {_done(finding)}", markup=False)
    if found.more:
        results.print(f"and {found.more} more: GET /admin/v1/sweep shows all that is open")


def _done(finding: Finding) -> str:
    return f"done: {finding.remedy}" if finding.repaired else f"to do: {finding.remedy}"
