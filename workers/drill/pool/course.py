"""A pool drill from its stack's first start to its removal."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import httpx
import psutil

from infra import fleet
from infra.db import Database, DatabaseTrouble, Row, load
from infra.settings import Settings
from workers.bench.awaiting import eventually
from workers.bench.visitor import UnexpectedAnswer, Visitor, visitor
from workers.cli.report import Figure
from workers.drill.audit import breaches
from workers.drill.pool import verdict
from workers.drill.pool.hosts import PoolHost, pool_hosts
from workers.drill.pool.kills import Killer
from workers.drill.pool.load import Load
from workers.drill.pool.plan import PoolPlan
from workers.drill.pool.watch import Watch
from workers.drill.stack import temporary_stack

_QUERIES = load(__package__)
CREDITS = 1_000_000
READY_S = 120
"""Agents and engines start all at once, on as few cores as there are."""
CLEAN_S = 90
"""A card in quarantine comes back by a canary; the looks of the canaries' keeper back off to 60 s."""
LOOK_EACH_S = 0.5
_TROUBLES = (httpx.HTTPError, UnexpectedAnswer, DatabaseTrouble)


async def pool_drill(plan: PoolPlan, tell: Callable[[str], None], *, keep: bool = False) -> list[Figure]:
    """Kill hosts under load, let everything end, and check.

    Raises:
        StackFailed: The drill's own stack did not come up.
        TimeoutError: The hosts' cards never took work.
    """
    async with temporary_stack(tell, keep=keep) as settings:
        database = Database.from_settings(settings, application="drill")
        async with database, _guests(database, settings, plan) as guests:
            apart = await _set_own_cards_apart(database, guests[0])
            seen = await _disturbed(plan, settings, database, guests, apart, tell)
    return verdict.figures(plan, seen)


async def _disturbed(
    plan: PoolPlan,
    settings: Settings,
    database: Database,
    guests: Sequence[Visitor],
    apart: list[str],
    tell: Callable[[str], None],
) -> verdict.Evidence:
    """The drill itself, with hosts of its own; none of their processes is left."""
    load_ = Load(database, guests, in_flight=plan.in_flight, chance=Random(plan.seed))  # noqa: S311 - no secret
    async with pool_hosts(settings, plan.hosts, cards=plan.cards) as hosts:
        homes = [host.home for host in hosts]
        with Watch(homes) as watch:
            killer = Killer(hosts, watch, plan, tell)
            tell(f"waiting for {plan.hosts * plan.cards} cards of {plan.hosts} hosts")
            await _ready(database, apart, plan.hosts * plan.cards)
            tell(f"killing for {plan.seconds:g} s, seed {plan.seed}")
            await _under_load(load_, killer)
            tell("letting everything end")
            still_open = await _ended(database)
            dirty = await _clean(database, apart)
            tell("checking")
            found = await breaches(database)
        async with database.read() as reader:
            rows = await verdict.ask(reader, accounts=load_.accounts, accepted=load_.accepted)
    return verdict.Evidence(
        kills=killer.kills,
        stretches=watch.stretches,
        finished=await asyncio.to_thread(verdict.finished_runs, homes),
        rows=rows,
        refused=dict(load_.refused),
        still_open=still_open,
        dirty=dirty,
        breaches=found,
        left_running=await asyncio.to_thread(_running_in, hosts),
    )


@asynccontextmanager
async def _guests(database: Database, settings: Settings, plan: PoolPlan) -> AsyncIterator[list[Visitor]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                visitor(database, settings.public_url, credits=CREDITS, purpose="drill")
            )
            for _ in range(plan.accounts)
        ]


async def _set_own_cards_apart(database: Database, guest: Visitor) -> list[str]:
    """Take the stack's own card out of service once it made the model ready: only cards that die are to work."""
    await eventually(guest.model_is_ready, within_s=READY_S, despite=_TROUBLES)
    async with database.transaction() as tx:
        cards = [str(row["uuid"]) for row in await tx.all(_QUERIES["cards"])]
        for card in cards:
            await fleet.cordon(tx, card, cordoned=True, reason="its host isn't killed", actor="drill")
    return cards


async def _ready(database: Database, apart: list[str], count: int) -> None:
    async def ready() -> bool:
        async with database.read() as reader:
            return int(await reader.value(_QUERIES["ready_cards"], apart=apart)) >= count

    await eventually(ready, within_s=READY_S, despite=(DatabaseTrouble,))


async def _under_load(load_: Load, killer: Killer) -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(load_.run())
        await killer.run()
        load_.stop()


async def _ended(database: Database) -> Sequence[Row]:
    """Wait for every generation's end, and the canaries' too; those that are still open after their time."""
    return await _until_none(database, "still_open", verdict.ENDS_WITHIN_S, {})


async def _clean(database: Database, apart: list[str]) -> Sequence[Row]:
    """Wait until every card takes work; those that still don't after their time."""
    return await _until_none(database, "dirty_cards", CLEAN_S, {"apart": apart})


async def _until_none(
    database: Database, query: str, within_s: float, values: dict[str, list[str]]
) -> Sequence[Row]:
    found: Sequence[Row] = ()

    async def none() -> bool:
        nonlocal found
        async with database.read() as reader:
            found = await reader.all(_QUERIES[query], **values)
        return not found

    try:
        await eventually(none, within_s=within_s, each_s=LOOK_EACH_S, despite=(DatabaseTrouble,))
    except TimeoutError:
        return found
    return ()


def _running_in(hosts: Sequence[PoolHost]) -> list[str]:
    """Processes that still name a host's home. Blocking."""
    homes = [str(host.home) for host in hosts]
    left = [f"pid {host.pid}" for host in hosts if host.lives]
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            home in word for word in words for home in homes
        ):
            left.append(f"pid {process.info['pid']}: {' '.join(words)}")
    return left


def keep_report(home: Path, name: str, text: str) -> Path:
    """Keep a report among a home's drills; where it lies."""
    folder = home / "drills"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{name}.json"
    path.write_text(text)
    return path
