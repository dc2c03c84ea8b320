"""How the command line talks: steps on stderr, results on stdout, failures with what to do."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import typer
from rich.console import Console

from infra.db import Database
from infra.local.stack import StackNotStartedError, with_stack
from infra.settings import Settings

T = TypeVar("T")

steps = Console(stderr=True, highlight=False)
results = Console(highlight=False, soft_wrap=True)


def fail(problem: str, cure: str = "") -> NoReturn:
    """Say what is wrong and what to do, and end with 1."""
    steps.print(f"[red bold]{problem}[/]")
    if cure:
        steps.print(cure)
    raise typer.Exit(1)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the current step; plain lines when nobody watches."""
    if not sys.stderr.isatty():
        yield lambda step: steps.print(f"{title}: {step}")
        return
    with steps.status(title) as status:
        yield lambda step: status.update(f"{title}: {step}")


def stack_settings(settings: Settings | None = None) -> Settings:
    """The settings that reach the running stack; ends the command when there never was one."""
    settings = settings or Settings()
    if settings.database_url is not None and settings.temporal_address is not None:
        return settings
    try:
        return with_stack(settings)
    except StackNotStartedError:
        fail("The stack was never started here.", "Start it: holdfast up --detach")


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` with a small pool of connections to the stack's database."""

    async def run() -> T:
        async with Database.from_settings(stack_settings(), application="cli", pool_max=2) as database:
            return await work(database)

    return asyncio.run(run())
