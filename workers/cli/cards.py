"""`holdfast cards`: the fleet, and what an operator does with it."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from rich.table import Table

from infra import fleet
from infra.db import Database, DatabaseTrouble, Tx
from infra.db.errors import NoSuchRow, Refused
from infra.fleet import FleetView, ObservedMemory
from workers.cli import people
from workers.cli.console import fail, results, with_database
from workflows.domain.placement.fleet import Share

T = TypeVar("T")
group = typer.Typer(help="Cards: what they do, and whether they take new work.", no_args_is_help=True)
Named = Annotated[str, typer.Argument(help="A card's uuid or label, or a host for all of its cards.")]
Reason = Annotated[str, typer.Option(help="Kept with the act.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
LOOK_EACH_S = 1.0
UP = "Is the stack up? holdfast status"


@group.command("list")
def list_cards(*, as_json: AsJson = False) -> None:
    """Every card, what it does, what waits, and what memory runs were seen to take."""

    async def look(database: Database) -> tuple[FleetView, tuple[ObservedMemory, ...]]:
        async with database.read() as reader:
            return await fleet.fleet(reader), await fleet.observed_memory(reader)

    seen, memory = _asked(look)
    if as_json:
        told = seen.model_dump(mode="json") | {"memory": [one.model_dump(mode="json") for one in memory]}
        sys.stdout.write(json.dumps(told) + "\n")
        return
    cards = Table("card", "model", "state", "memory free of", "runs", "loaded", "uuid")
    for card in seen.cards:
        cards.add_row(
            card.label,
            card.gpu_model,
            card.state.value + (f": {card.quarantine_reason}" if card.quarantine_reason else ""),
            f"{card.vram_free_mib} / {card.vram_total_mib} MiB",
            card.running_model or "",
            ", ".join(card.resident_names),
            card.uuid,
        )
    results.print(cards)
    for card in seen.cards:
        if card.nonsense:
            results.print(f"{card.label}: told what can't be: {card.nonsense}")
        if card.refused_order:
            refused = card.refused_order
            results.print(
                f"{card.label}: its host refused {refused.times} orders, the last {refused.age_s:.0f} s ago, of "
                f"{refused.task_id} (fence {refused.fence}): {refused.fault.value}, {refused.reason}"
            )
        for claim in card.claims:
            results.print(
                f"{card.label}: host {claim.host} ({claim.host_id[:8]}) claims it too, refused {claim.times} "
                f"times, last {claim.age_s:.0f} s ago: {claim.reason}"
            )
    for work in seen.workload:
        results.print(
            f"{work.model_id}: {work.running} running, {work.waiting} waiting, longest {work.longest_wait_s:.0f} s"
        )
    for one in memory:
        results.print(
            f"{one.model_id} {one.mode}: at most {one.peak_mib} MiB in {one.runs} runs, short {one.oom} times; "
            f"a budget of {one.suggested_mib} MiB would do"
        )


@group.command()
def cordon(name: Named, reason: Reason) -> None:
    """Stop new work; what runs goes on."""
    _act(lambda tx: fleet.cordon(tx, name, cordoned=True, reason=reason, actor=people.actor()), "cordoned")


@group.command()
def uncordon(name: Named, reason: Reason) -> None:
    """Allow new work again."""
    _act(lambda tx: fleet.cordon(tx, name, cordoned=False, reason=reason, actor=people.actor()), "uncordoned")


@group.command()
def quarantine(name: Named, reason: Reason) -> None:
    """Stop new work until a canary has passed on each card."""
    _act(
        lambda tx: fleet.quarantine(tx, name, quarantined=True, reason=reason, actor=people.actor()),
        "in quarantine",
    )


@group.command()
def readmit(name: Named, reason: Reason) -> None:
    """Take out of quarantine without a canary."""
    _act(
        lambda tx: fleet.quarantine(tx, name, quarantined=False, reason=reason, actor=people.actor()), "readmitted"
    )


@group.command()
def drain(name: Named, reason: Reason) -> None:
    """Cordon, and wait until what runs is over."""
    cordon(name, reason)

    async def idle(database: Database) -> None:
        while True:
            async with database.read() as reader:
                seen = await fleet.fleet(reader, named=name)
            busy = [card.label for card in seen.cards if card.running_model is not None]
            if not busy:
                return
            await asyncio.sleep(LOOK_EACH_S)

    _asked(idle)
    results.print(f"{name} is drained")


@group.command()
def share(
    account: Annotated[str, typer.Argument(help="Id of the account.")],
    reason: Reason,
    *,
    weight: Annotated[float, typer.Option(min=0.01, max=100, help="Its part beside others; 1 is usual.")] = 1.0,
    on_cards_max: Annotated[
        int | None, typer.Option(min=0, max=100_000, help="Its most on cards at once.")
    ] = None,
) -> None:
    """Set what an account may have of the fleet beside others."""

    async def set_it(tx: Tx) -> int:
        wanted = Share(weight, on_cards_max)
        await fleet.set_share(tx, account_id=account, share=wanted, reason=reason, actor=people.actor())
        return 1

    _act(set_it, "share set")


def _act(act: Callable[[Tx], Awaitable[int]], done: str) -> None:
    async def work(database: Database) -> int:
        async with database.single_statement() as tx:
            return await act(tx)

    changed = _asked(work)
    results.print(f"{changed} {done}" if changed else "nothing changed: it was so before")


def _asked(work: Callable[[Database], Awaitable[T]]) -> T:
    try:
        return with_database(work)
    except NoSuchRow as error:
        fail(f"Refused: {error}", "holdfast cards list")
    except Refused as error:
        fail(f"Refused: {error}", "Say why with --reason")
    except DatabaseTrouble as error:
        fail(f"The database can't be asked: {error}", UP)
