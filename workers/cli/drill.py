"""`holdfast drill`: break the platform on purpose and see it end right."""

import asyncio
import json
import secrets
from datetime import UTC, datetime
from typing import Annotated

import typer

from infra.settings import Settings
from workers.cli.console import fail, steps
from workers.cli.report import Report, conclude
from workers.drill.cases import NoSuchCase, chosen
from workers.drill.pool.plan import PoolPlan
from workers.drill.stack import StackFailed

drill = typer.Typer(help="Break the platform on purpose, in a stack of its own.", no_args_is_help=True)


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
        figures = asyncio.run(kill_all(wanted, _tell, keep=keep))
    except StackFailed as error:
        fail(str(error), "holdfast doctor says what an installation lacks.")
    conclude(Report(figures), as_json=as_json)


@drill.command("pool")
def pool_command(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, max=1440, help="How long is killed.")] = 5.0,
    seed: Annotated[int | None, typer.Option(help="Of what is drawn: whom to kill, when, for how long.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the drill's stack running, to look at it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill 4 hosts of 2 cards each at random under load; no task is lost, run twice at once or delivered twice."""
    from workers.drill.pool.course import keep_report, pool_drill  # noqa: PLC0415 - as above

    plan = PoolPlan(minutes * 60, secrets.randbelow(2**31) if seed is None else seed)
    try:
        figures = asyncio.run(pool_drill(plan, _tell, keep=keep))
    except (StackFailed, TimeoutError) as error:
        fail(str(error), "holdfast doctor says what an installation lacks.")
    report = Report(figures)
    name = f"pool-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    _tell(f"kept in {keep_report(Settings().home, name, json.dumps(report.document(), default=str, indent=1))}")
    conclude(report, as_json=as_json)


def _tell(text: str) -> None:
    steps.print(f"[dim]{text}[/]")
