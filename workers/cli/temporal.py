"""`holdfast temporal`: the server as `temporal.yaml` says."""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer
from rich.table import Table
from temporalio.service import RPCError

from infra.temporal import apply as server
from infra.temporal import deployment
from infra.temporal.apply import Difference
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from workers.cli.console import fail, results, stack_settings, steps

group = typer.Typer(help="The Temporal server's namespace, search attributes and versions.", no_args_is_help=True)


@group.command()
def apply(
    *, check: Annotated[bool, typer.Option("--check", help="Only show differences; ends with 1 at any.")] = False
) -> None:
    """Make the server what temporal.yaml says. Safe to repeat."""
    settings = stack_settings()
    configuration = read_configuration(settings)

    async def work() -> list[Difference]:
        client = await connect(settings)
        return await (server.differences if check else server.apply)(client, configuration)

    try:
        found = asyncio.run(work())
    except (RuntimeError, RPCError, TimeoutError) as error:
        fail(
            f"Temporal at {settings.temporal_address} did not answer: {error}", "Is the stack up? holdfast status"
        )
    if not found:
        steps.print("The server is what temporal.yaml says.")
        return
    table = Table("what", "on the server", "in the file", "" if check else "done")
    for one in found:
        table.add_row(
            one.what, one.server, one.file, "" if check else ("yes" if one.applicable else "by hand only")
        )
    results.print(table)
    if check or not all(one.applicable for one in found):
        raise typer.Exit(1)


@group.command()
def promote(
    *, patience_s: Annotated[int, typer.Option(min=1, help="Seconds to wait for a worker of this build.")] = 120
) -> None:
    """Make this checkout's workflow code the version that new generations start on."""
    settings = stack_settings()
    build = deployment.build_id()

    async def work() -> list[str]:
        client = await connect(settings)
        await deployment.promote(client, build, patience=timedelta(seconds=patience_s))
        return await deployment.stranded(client, build)

    try:
        others = asyncio.run(work())
    except TimeoutError:
        fail(f"No orchestrator of build {build} polled.", "Start one with this code, then promote.")
    except (RuntimeError, RPCError) as error:
        fail(f"Temporal at {settings.temporal_address} did not answer: {error}")
    results.print(f"New generations start on build {build}.")
    if others:
        results.print(f"{len(others)} go on under their older build; keep its workers until they have ended.")
