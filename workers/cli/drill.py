"""`holdfast drill`: break the platform on purpose and see it end right."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.console import Console

from infra.db import Database
from workers.bench.pictures import picture
from workers.bench.visitor import visitor
from workers.cli.report import Figure, Report, conclude
from workers.drill.cases import Case, NoSuchCase, chosen
from workers.drill.kill import Ending, KillDrill
from workers.drill.stack import temporary_stack

SIDE = 640
"""Pixels of the input: its run takes some seconds, long enough to be hit in the middle."""
CREDITS = 1_000_000

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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill each process at each moment; every generation ends in the right picture or with its credits back."""
    progress = Console(stderr=True)
    try:
        wanted = chosen(cases)
    except NoSuchCase as error:
        raise typer.BadParameter(str(error)) from error
    figures = asyncio.run(_kill(wanted, lambda text: progress.print(f"[dim]{text}[/]")))
    conclude(Report(figures), as_json=as_json)


async def _kill(cases: Sequence[Case], tell: Callable[[str], None]) -> list[Figure]:
    figures: list[Figure] = []
    async with temporary_stack(tell) as settings:
        database = Database.from_settings(settings, application="holdfast drill")
        async with database, visitor(database, settings.public_url, credits=CREDITS, purpose="drill") as guest:
            drilled = KillDrill(home=settings.home, database=database, visitor=guest, image=picture(SIDE, SIDE))
            digest = await drilled.baseline()
            tell(f"undisturbed: {digest}")
            for number, case in enumerate(cases, 1):
                ending = await drilled.run(case)
                figures.append(ending.figure())
                tell(f"{number}/{len(cases)} {_line(ending)}")
    right = sum(figure.ok for figure in figures)
    return [Figure("cases_ended_right", right, "count", f"= {len(cases)}", right == len(cases)), *figures]


def _line(ending: Ending) -> str:
    words = [ending.case, "ok" if ending.ok else "WRONG", f"in {ending.seconds:.1f} s", ending.status]
    return " ".join(word for word in (*words, ending.credit_status, ending.note, *ending.breaches) if word)
