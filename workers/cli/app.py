"""The root of the command line: every command in one list."""

from collections.abc import Callable

import typer

from infra.telemetry import configure_logging
from workers.cli import accounts, backup, demo, develop, doctor, ledger, stack, sweep, temporal
from workers.cli.bench import bench
from workers.cli.drill import drill

app = typer.Typer(
    name="holdfast",
    help="Durable image and video generation on your own GPUs.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(stack.up, stack.down, stack.status, stack.logs, stack.reset),
    *(demo.demo, doctor.doctor, backup.backup, backup.restore, sweep.sweep, develop.check),
)
for command in COMMANDS:
    app.command()(command)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(develop.test)
app.add_typer(accounts.group, name="account")
app.add_typer(ledger.group, name="ledger")
app.add_typer(temporal.group, name="temporal")
app.add_typer(bench, name="bench")
app.add_typer(drill, name="drill")


def main() -> None:
    """The entry point `holdfast`. Logs go to stderr, so that stdout is results alone."""
    configure_logging("cli")
    app()
