"""What placement costs: a lease beside an admission alone, and the decision at four sizes of fleet and queue."""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from infra import generations, leases, ledger
from infra.db import Database, migrate
from infra.ledger import AccountKind
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres
from workers.bench.money.lives import CAPABILITY, ENGINE, request
from workers.bench.statistics import percentile, summary
from workers.cli.report import Figure, at_most
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Release
from workflows.contracts.hosts import CardReport, HostReport
from workflows.contracts.states import Status
from workflows.domain.placement.fleet import Card, Resident, Waiting, Work
from workflows.domain.placement.pool import Pool

LEASE_EXTRA_MS_MAX = 10.0
SIZES = ((100, 10), (1_000, 100), (10_000, 1_000), (100_000, 10_000))
"""Waiting and cards."""
SMALL, LARGE = SIZES[1], SIZES[3]
SMALL_MS_MAX, LARGE_MS_MAX = 5.0, 100.0
EVENTS = 50
ROUNDS = 5
MODELS = 24
ACCOUNTS = 50
PRICE = 1
CREDITS = 10**9


def placement(samples: int, say: Callable[[str], None]) -> list[Figure]:
    """All figures; a database of its own, which is thrown away."""
    say("a lease beside an admission alone")
    with tempfile.TemporaryDirectory(prefix="hf-place-", dir="/tmp") as folder:  # a short socket path
        Path(folder).chmod(0o755)  # run by root, the server is another user's
        server = EmbeddedPostgres(Layout(Path(folder)))
        server.prepare()
        with server.running(Path(folder) / "postgres.log"):
            server.create_database()
            extra = asyncio.run(_lease_extra(server.conninfo(), samples))
    sizes = {}
    for waiting, cards in SIZES:
        say(f"deciding {waiting} waiting by {cards} cards")
        sizes[waiting, cards] = _decisions(waiting, cards)
    growth = {f"{waiting}x{cards}": one.told() for (waiting, cards), one in sizes.items()}
    return [
        extra,
        at_most("decide_1000x100_ms", sizes[SMALL].whole_ms, SMALL_MS_MAX, "ms", growth),
        at_most("decide_100000x10000_ms", sizes[LARGE].event_ms, LARGE_MS_MAX, "ms", growth),
    ]


class Decided(NamedTuple):
    """Milliseconds of decisions at one size.

    Attributes:
        build_ms: Taking all in, once, as a placer does that begins to lead.
        whole_ms: The decision with every card free and everybody waiting: the least of some rounds.
        event_ms: A card becomes free, the decision that follows: the worst of many.
        event_p50_ms: The median of the same.
    """

    build_ms: float
    whole_ms: float
    event_ms: float
    event_p50_ms: float

    def told(self) -> dict[str, float]:
        """For the report."""
        return {name: round(value, 3) for name, value in self._asdict().items()}


def _decisions(waiting: int, cards: int) -> Decided:
    chance = random.Random(1)  # noqa: S311 - a benchmark is to be repeatable
    works = [_work(number, chance) for number in range(MODELS)]
    fleet = [_card(number, chance) for number in range(cards)]
    queue = [
        Waiting(f"t{number:06d}", f"a{chance.randrange(ACCOUNTS)}", chance.choice(works), number * 0.001)
        for number in range(waiting)
    ]
    builds, wholes = [], []
    pool, given = Pool(), []
    for _ in range(ROUNDS if waiting <= SMALL[0] else 1):
        began = time.perf_counter()
        pool = Pool()
        for card in fleet:
            pool.put_card(card)
        for one in queue:
            pool.put_ticket(one)
        built = time.perf_counter()
        given = pool.decide(0.0)
        wholes.append(time.perf_counter() - built)
        builds.append(built - began)
    events = []
    for _ in range(EVENTS):
        over = chance.choice(given)
        began = time.perf_counter()
        pool.put_card(replace(pool.cards[over.cards[0]], busy_until=None))
        pool.left_card(over.account_id)
        pool.decide(0.0)
        events.append(time.perf_counter() - began)
    return Decided(min(builds) * 1000, min(wholes) * 1000, max(events) * 1000, statistics.median(events) * 1000)


def _work(number: int, chance: random.Random) -> Work:
    weights = Resident(f"model-{number}", chance.choice([4_000, 15_000, 30_000]), chance.choice([3.0, 8.0, 15.0]))
    return Work(
        key=f"model-{number}",
        capability=chance.choice("xyz"),
        engine="comfyui",
        budget_mib=chance.choice([8_000, 20_000, 40_000, 70_000]),
        run_s=chance.choice([1.0, 10.0, 70.0, 300.0]),
        residents=(weights,),
    )


def _card(number: int, chance: random.Random) -> Card:
    return Card(
        uuid=f"card-{number:05d}",
        label=f"gpu-{number}",
        host=f"host-{number // 8}",
        engines=frozenset({"comfyui"}),
        capabilities=frozenset("xyz"),
        total_mib=chance.choice([32_000, 48_000, 97_887]),
        reported_at=0.0,
    )


async def _lease_extra(conninfo: str, samples: int) -> Figure:
    """Admissions that get a card at once and such that find none, in turns on one database."""
    await migrate(conninfo)
    placed: list[float] = []
    alone: list[float] = []
    async with Database(conninfo, application="bench", pool_max=2) as database:
        async with database.transaction() as tx:
            await ledger.open_account(tx, account_id="bench", kind=AccountKind.USER, name="Bench")
            await ledger.grant(tx, account_id="bench", credits=CREDITS, reason="bench", actor="bench", key="bench")
        for number in range(samples + ROUNDS):
            with_card = await _admit(database, f"placed-{number}", card=True)
            without = await _admit(database, f"alone-{number}", card=False)
            if number >= ROUNDS:
                placed.append(with_card)
                alone.append(without)
    extra_ms = (percentile(placed, 0.5) - percentile(alone, 0.5)) * 1000
    raw = {"with_a_lease": summary(placed), "alone": summary(alone)}
    return at_most("lease_extra_ms_p50", extra_ms, LEASE_EXTRA_MS_MAX, "ms", raw)


async def _admit(database: Database, name: str, *, card: bool) -> float:
    """Seconds of one admission; the card is idle or away, and is so again afterwards."""
    async with database.single_statement() as tx:
        await leases.record_report(tx, _report(up=card))
    asked = request("bench", name, price=PRICE)
    began = time.perf_counter()
    async with database.single_statement() as tx:
        admitted = await generations.admit(tx, asked)
    seconds = time.perf_counter() - began
    if (admitted.lease is not None) is not card:
        raise AssertionError(f"{name}: leased {admitted.lease}, though a card was there: {card}")
    failure = Failure(code=Code.CANCELED, message="The bench is done with it.")
    async with database.single_statement() as tx:
        await generations.release(
            tx,
            Release(task_id=asked.task_id, status=Status.CANCELED, failure=failure, lease_id=None, actor="bench"),
        )
    return seconds


def _report(*, up: bool) -> HostReport:
    card = CardReport(
        card_uuid="bench-0",
        label="bench-0",
        gpu_model="CPU",
        vram_total_mib=4096,
        vram_free_mib=4096,
        engines=(ENGINE,) if up else (),
        capabilities=(CAPABILITY,) if up else (),
        boot_id="bench",
    )
    return HostReport(host="bench", cards=(card,))
