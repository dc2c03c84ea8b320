"""Hold and settle beside `pgbench -N`: the same server, client program and number of clients, in turns.

A pair is the product's own two statements (`infra/generations/queries.sql`), each one round trip and transaction:
credits, generation, operation, event, ticket; then credits, generation, event, outbox. Who waits for a card and
how media get made isn't part of it.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from infra.db import Database, load, migrate
from infra.ledger.audit import audit
from infra.local.scratch import ScratchServer, finish_pgbench, scratch_server
from workers.bench.money.lives import request
from workers.bench.statistics import percentile
from workers.cli.report import Figure, at_least, at_most

_QUERIES = load(__package__, "ledger.sql")
_STEPS = load("infra.generations")
ACCOUNTS = 400
"""Beside so many, two clients rarely want the same one."""
HOT = 0
PRICE = 10
SCALE = 2
"""Of pgbench's tables: 200,000 rows, of which each of its transactions changes one."""
THREADS = 2
RATIO_MIN, HOT_RATIO_MIN, OTHERS_MAX = 0.3, 0.1, 1.5
PATIENCE_S = 60
OTHERS_PER_S = 50
"""A calm stream, so that its latency tells of waiting and not of its own weight."""
_TPS = re.compile(r"tps = ([\d.]+)")


@dataclass(frozen=True, slots=True)
class LedgerPlan:
    """What to measure.

    Attributes:
        clients: At once, for each side alike.
        rounds: Turns of all sides.
        seconds: Of each turn of each side.
    """

    clients: int = 8
    rounds: int = 5
    seconds: int = 4


class Scripts:
    """pgbench's scripts, written from the product's own statements."""

    def __init__(self, folder: Path) -> None:
        """Write into this folder."""
        self._folder = folder
        self._count = 0

    def pair(self, accounts: str) -> list[str]:
        """Arguments that let each client hold and settle, on an account of this expression of pgbench's."""
        self._count += 1
        path = self._folder / f"pair-{self._count}.sql"
        path.write_text(_script(accounts, self._count))
        return ["-f", str(path), "-D", "n=0"]


def _script(accounts: str, run: int) -> str:
    operation = f"'{run}-'||:client_id||'-'||:n"
    made = request("@account", "@operation", price=PRICE)
    # Each request is its own: its fingerprint too, so that none is taken for a click on another.
    text = made.model_dump_json().replace(made.task_id, "@task").replace(made.fingerprint, "@fingerprint")
    document = f"$request${text}$request$"
    for mark, value in (
        ("@account", "'bench-'||:account"),
        ("@operation", operation),
        ("@task", f"'gen-'||{operation}"),
        ("@fingerprint", f"repeat(md5({operation}), 2)"),
    ):
        document = f"replace({document}, '{mark}', ({value})::text)"
    known = {
        "request": document,
        "in_flight_max": "1000000",
        "fresh": "interval '5 s'",
        "offer": "interval '2 s'",
        "duplicates": "interval '10 s'",
        "task_id": f"'gen-'||{operation}",
        "credits": str(PRICE),
        "actor": "'workflow:bench'",
        "artifacts": "null",
        "refused": "null",
    }
    steps = [_statement(name) % known for name in ("admit", "settle")]
    return "\n".join(["\\set n :n + 1", f"\\set account {accounts}", *(f"{step};" for step in steps), ""])


def _statement(name: str) -> str:
    lines = [line for line in _STEPS[name].text.splitlines() if line and not line.startswith("--")]
    return " ".join(lines)


def ledger(plan: LedgerPlan, tell: Callable[[str], None]) -> Sequence[Figure]:
    """Measure on a server of its own, as durable as the stack's."""
    with scratch_server() as server, tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        asyncio.run(_prepare(server))
        server.pgbench("-i", "-q", "-s", str(SCALE), within_s=PATIENCE_S)
        bench = _Bench(server, plan, Scripts(Path(folder)), Path(folder))
        figures = [*_throughput(bench, tell), _others(bench, tell)]
        tell("the audit of what was booked")
        return [*figures, asyncio.run(_audited(server))]


class _Bench:
    """Runs pgbench for one side after the other."""

    def __init__(self, server: ScratchServer, plan: LedgerPlan, scripts: Scripts, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._logs = 0
        self.plan = plan
        self.scripts = scripts

    def tps(self, *arguments: str) -> float:
        """Transactions of the script each second, with all clients."""
        said = self._server.pgbench(*self._load(arguments), within_s=PATIENCE_S)
        found = _TPS.search(said)
        if found is None:
            raise ValueError(f"pgbench says no rate: {said}")
        return float(found[1])

    def p95_beside(self, *arguments: str) -> float:
        """Seconds that 95 of 100 pairs on other accounts take at most, while all clients do this."""
        self._logs += 1
        log = self._folder / f"others-{self._logs}"
        crowd = self._server.start_pgbench(*self._load(arguments))
        quiet = [*self.scripts.pair(f"random(1, {ACCOUNTS - 1})"), "-R", str(OTHERS_PER_S)]
        self._server.pgbench(
            *("-n", "-c", "2", "-T", str(max(self.plan.seconds - 1, 1)), "-l", "--log-prefix", str(log), *quiet),
            within_s=PATIENCE_S,
        )
        finish_pgbench(crowd, PATIENCE_S)
        lines = [line.split() for file in self._folder.glob(f"{log.name}.*") for line in file.open()]
        # A line is client, number, microseconds with the time that the start was late, …, and that lateness.
        return percentile([(int(line[2]) - int(line[6])) / 1e6 for line in lines], 0.95)

    def _load(self, arguments: Sequence[str]) -> list[str]:
        return ["-n", "-c", str(self.plan.clients), "-j", str(THREADS), "-T", str(self.plan.seconds), *arguments]


async def _prepare(server: ScratchServer) -> None:
    await migrate(server.conninfo())
    async with Database(server.conninfo(), application="bench") as database, database.transaction() as tx:
        await tx.value(_QUERIES["accounts"], count=ACCOUNTS)


def _throughput(bench: _Bench, tell: Callable[[str], None]) -> list[Figure]:
    sides: dict[str, list[float]] = {"pgbench_n": [], "spread": [], "hot": []}
    spread, hot = f"random(1, {ACCOUNTS - 1})", str(HOT)
    for number in range(bench.plan.rounds):
        tell(f"round {number + 1} of {bench.plan.rounds}: pgbench -N, then pairs on many accounts, then on one")
        turns = {"pgbench_n": ["-N"], "spread": bench.scripts.pair(spread), "hot": bench.scripts.pair(hot)}
        # Who goes first changes with each round.
        names = list(turns)[number % 3 :] + list(turns)[: number % 3]
        for name in names:
            sides[name].append(bench.tps(*turns[name]))
    told: dict[str, Any] = {name: [round(value, 1) for value in values] for name, values in sides.items()}
    told |= {
        "clients": bench.plan.clients,
        "seconds": bench.plan.seconds,
        "unit": "transactions or pairs per second",
    }
    return [
        at_least("ledger_vs_pgbench_ratio", _ratio(sides, "spread"), RATIO_MIN, "1", told),
        at_least("ledger_hot_ratio", _ratio(sides, "hot"), HOT_RATIO_MIN, "1", told),
    ]


def _ratio(sides: dict[str, list[float]], name: str) -> float:
    return median(ours / bare for ours, bare in zip(sides[name], sides["pgbench_n"], strict=True))


def _others(bench: _Bench, tell: Callable[[str], None]) -> Figure:
    """Others beside one hot account, against others beside the same crowd on many accounts."""
    hot, spread = [], []
    for number in range(2):
        tell(f"others beside a hot account, {number + 1} of 2")
        hot.append(bench.p95_beside(*bench.scripts.pair(str(HOT))))
        spread.append(bench.p95_beside(*bench.scripts.pair(f"random(1, {ACCOUNTS - 1})")))
    raw = {"beside_hot_ms": [x * 1000 for x in hot], "beside_spread_ms": [x * 1000 for x in spread]}
    return at_most("hot_others_p95_ratio", median(hot) / median(spread), OTHERS_MAX, "1", raw)


async def _audited(server: ScratchServer) -> Figure:
    """Nothing that the crowd did broke an invariant; results aren't part of the bench."""
    async with Database(server.conninfo(), application="bench") as database, database.read() as reader:
        found = await audit(reader)
        pairs = await reader.value(_QUERIES["pairs"])
    broken = [one.name for one in found if not one.ok and one.name not in WITHOUT_RESULTS]
    return at_most("ledger_invariants_broken", len(broken), 0, "count", {"broken": broken, "pairs": pairs})


WITHOUT_RESULTS = frozenset(("completed_without_results", "messages_undelivered"))
"""Invariants that speak of artifacts and of deliveries, of which a bench of credits has none."""
