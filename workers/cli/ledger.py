"""`holdfast ledger`: is the money right?"""

from typing import Annotated

import typer

from infra import ledger as books
from infra.db import Database, DatabaseTrouble
from infra.ledger import Finding
from workers.cli.console import fail, with_database
from workers.cli.report import Figure, Report, conclude

group = typer.Typer(help="The ledger.", no_args_is_help=True)


@group.callback()
def ledger() -> None:
    """Keep `audit` a subcommand while it is the only one."""


@group.command()
def audit(*, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Check every invariant on the live system; ends with 1 when one is broken."""

    async def look(database: Database) -> tuple[Finding, ...]:
        async with database.read() as reader:
            return await books.audit(reader)

    try:
        findings = with_database(look)
    except DatabaseTrouble as error:
        fail(f"The audit could not run: {error}", "Is the stack up? holdfast status")
    figures = [
        Figure(one.name, one.value, one.unit, one.goal, one.ok, {"meaning": one.meaning, "detail": one.detail})
        for one in findings
    ]
    conclude(Report(figures), as_json=as_json)
