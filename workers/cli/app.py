"""The root of the command line: every command in one list, of which a call loads its own alone."""

import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import typer

from infra.telemetry import configure_logging

COMMANDS = {
    "up": "workers.cli.stack",
    "down": "workers.cli.stack",
    "status": "workers.cli.stack",
    "logs": "workers.cli.stack",
    "reset": "workers.cli.stack",
    "demo": "workers.cli.demo",
    "doctor": "workers.cli.doctor",
    "backup": "workers.cli.backup",
    "restore": "workers.cli.backup",
    "reconcile": "workers.cli.reconcile",
    "simulate": "workers.cli.simulate",
    "check": "workers.cli.develop",
    "test": "workers.cli.develop",
}
"""Each is a function of its own name in this module."""
GROUPS = {
    "account": ("workers.cli.operating", "account_group"),
    "operation": ("workers.cli.operations", "group"),
    "operator": ("workers.cli.operating", "operator_group"),
    "cards": ("workers.cli.cards", "group"),
    "ledger": ("workers.cli.ledger", "group"),
    "orders": ("workers.cli.orders", "group"),
    "receipt": ("workers.cli.receipts", "group"),
    "temporal": ("workers.cli.temporal", "group"),
    "bench": ("workers.cli.bench", "bench"),
    "drill": ("workers.cli.drill", "drill"),
}
_PASSES_ARGUMENTS_ON = {"test": {"allow_extra_args": True, "ignore_unknown_options": True}}


def application(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands and groups."""
    made = typer.Typer(
        name="holdfast",
        help="Durable image and video generation on your own GPUs.",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        callback=_root,
    )
    for name in names:
        if name in COMMANDS:
            function = getattr(import_module(COMMANDS[name]), name)
            made.command(name, context_settings=_PASSES_ARGUMENTS_ON.get(name))(function)
        else:
            module, group = GROUPS[name]
            made.add_typer(getattr(import_module(module), group), name=name)
    return made


@cache
def whole() -> typer.Typer:
    """The command line with all that there is; takes a second to load, most of it for other commands."""
    return application((*COMMANDS, *GROUPS))


def __getattr__(name: str) -> Any:
    """`app` for whoever looks at the whole command line, made when it is asked for."""
    if name == "app":
        return whole()
    raise AttributeError(name)


def main() -> None:
    """The entry point `holdfast`. Logs go to stderr, so that stdout is results alone."""
    configure_logging("cli")
    called = sys.argv[1] if len(sys.argv) > 1 else ""
    (application((called,)) if called in COMMANDS or called in GROUPS else whole())()


def _root() -> None:
    """Durable image and video generation on your own GPUs."""  # with one command alone, Typer would drop its name
