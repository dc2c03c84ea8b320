"""`holdfast bench`: what the platform costs, in numbers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from workers.bench.plan import Part, Plan
from workers.cli.console import fail, stack_settings, steps
from workers.cli.report import Figure, Report, conclude

bench = typer.Typer(help="Measure what the platform costs, beside the bare parts.", no_args_is_help=True)


@bench.command("overhead")
def overhead_command(
    *,
    only: Annotated[
        list[Part] | None, typer.Option(help="Measure this part; may be given more than once.")
    ] = None,
    samples: Annotated[int, typer.Option(min=10, help="Turns of each latency.")] = 60,
    pairs: Annotated[int, typer.Option(min=1, help="Engine runs beside as many bare ones.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.5, help="Least length of an engine run.")] = 20.0,
    idle_seconds: Annotated[float, typer.Option(min=0, help="Rest before memory is weighed.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Admission, first step, engine and memory beside the bare parts. All parts take about 12 minutes."""
    from workers.bench.overhead import overhead  # noqa: PLC0415 - costs every other command half a second

    plan = Plan(frozenset(only or Part), samples, pairs, seconds, idle_seconds)
    figures = asyncio.run(overhead(stack_settings(), plan, _tell))
    conclude(Report(figures), as_json=as_json)


@bench.command("placement")
def placement_command(
    *,
    samples: Annotated[int, typer.Option(min=10, help="Admissions of each kind.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """A lease beside an admission alone, and the decision at four sizes. Needs no running stack; half a minute."""
    from workers.bench.placement import placement  # noqa: PLC0415 - as above

    figures = placement(samples, _tell)
    conclude(Report(figures), as_json=as_json)


@bench.command("ledger")
def ledger_command(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Take random steps and compare all with a model, instead of measuring.")
    ] = False,
    operations: Annotated[int, typer.Option(min=100, help="Steps of the check.")] = 100_000,
    clients: Annotated[int, typer.Option(min=1, help="At once, on each side.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side.")] = 5,
    seconds: Annotated[int, typer.Option(min=1, help="Length of a turn.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Holds and settlements beside `pgbench -N`, on a Postgres of the bench's own. Takes about two minutes."""
    if check:
        conclude(Report(_check(operations, _tell)), as_json=as_json)
    from workers.bench.ledger import LedgerPlan, ledger  # noqa: PLC0415 - as above

    conclude(Report(ledger(LedgerPlan(clients, rounds, seconds), _tell)), as_json=as_json)


def _check(operations: int, tell: Callable[[str], None]) -> Sequence[Figure]:
    try:
        from workers.bench.money.check import check  # noqa: PLC0415 - Hypothesis comes with the extra `dev`
    except ModuleNotFoundError as missing:
        fail(f"The check needs {missing.name}.", "Install it: pip install 'holdfast[dev]'")
    return check(operations, tell)


def _tell(text: str) -> None:
    steps.print(f"[dim]{text}[/]")
