"""`holdfast simulate`: arrivals replayed against a described fleet."""

from typing import Annotated

import typer

from workers.cli.console import fail, steps
from workers.cli.report import Report, conclude


def simulate(
    *,
    trace: Annotated[str, typer.Option(help="A shipped trace (hair, day, rush, avatars, fleet10000) or a file.")],
    fleet: Annotated[
        str | None, typer.Option(help="Another fleet than the trace names: shipped or a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a trace through the placement code of production, beside FIFO, with measured run and load times."""
    from workers.simulate.figures import Simulated, figures  # noqa: PLC0415 - costs every other command its time
    from workers.simulate.replay import PolicyName, Replay  # noqa: PLC0415 - as above
    from workers.simulate.scenario import ScenarioUnreadableError, load, read_trace  # noqa: PLC0415 - as above

    try:
        spec = read_trace(trace)
        variants = list(spec.variants) or [""]
        scenarios = {variant: load(trace, fleet, variant) for variant in variants}
        before = load(trace, fleet or spec.baseline_fleet, variants[0])
    except ScenarioUnreadableError as error:
        fail(str(error), "docs/operate/simulate.md says what a fleet and a trace consist of")
    first = scenarios[variants[0]]
    steps.print(f"[dim]{spec.says} {len(first.arrivals)} requests, {len(first.cards)} cards.[/]")
    steps.print("[dim]fifo[/]")
    baseline = Replay(before, PolicyName.FIFO).run()
    placed = {}
    for variant, scenario in scenarios.items():
        steps.print(f"[dim]holdfast {variant}[/]")
        placed[variant] = Replay(scenario, PolicyName.HOLDFAST).run()
    conclude(Report(figures(Simulated(first.name, first, baseline, placed))), as_json=as_json)
