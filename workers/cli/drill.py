"""`holdfast drill`: break the platform on purpose and see it end right."""

import asyncio
from typing import Annotated

import typer

from workers.cli.console import fail, steps
from workers.cli.report import Report, conclude
from workers.drill.cases import NoSuchCase, chosen
from workers.drill.stack import StackFailed

drill = typer.Typer(help="Break the platform on purpose, in a stack of its own.", no_args_is_help=True)


@drill.callback()
def group() -> None:
    """Keep `kill` a subcommand while it is the only one."""


@drill.command("kill")
def kill_command(
    *,
    cases: Annotated[
        str, typer.Option(help="`all`, a number of cases, or names with commas, as api@running,postgres@settling.")
    ] = "all",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the drill's stack running, to look at it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill each process at each moment; every generation ends in the right picture or with its credits back."""
    try:
        wanted = chosen(cases)
    except NoSuchCase as error:
        raise typer.BadParameter(str(error)) from error
    from workers.drill.course import kill_all  # noqa: PLC0415 - costs every other command half a second

    try:
        figures = asyncio.run(kill_all(wanted, lambda text: steps.print(f"[dim]{text}[/]"), keep=keep))
    except StackFailed as error:
        fail(str(error), "holdfast doctor says what an installation lacks.")
    conclude(Report(figures), as_json=as_json)
