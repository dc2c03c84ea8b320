"""What a pool drill shows, as figures."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infra.db import Reader, Row, load
from workers.cli.report import Figure, at_most
from workers.drill.pool.kills import Kill
from workers.drill.pool.plan import PoolPlan
from workers.drill.pool.watch import Stretch, at_once

_QUERIES = load(__package__)
_JOURNAL = load(__package__, "journal.sql")
ENDS_WITHIN_S = 240
"""After the last kill. Looks for evidence double their pauses; after five minutes of kills the longest is 160 s,
and what is found lost then is run again."""
NAMED_MAX = 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known once everything ended, or had its time.

    Attributes:
        kills: What was killed.
        stretches: What ran where, from the engines' records.
        finished: Runs that the hosts' journals say were finished.
        rows: What the database says, by the name of the query.
        refused: What callers were answered instead of an acceptance.
        still_open: Generations that never ended.
        dirty: Cards that took no work at the end.
        breaches: Of the audit.
        left_running: Processes of the drill that outlived it.
    """

    kills: Sequence[Kill]
    stretches: Sequence[Stretch]
    finished: frozenset[str]
    rows: dict[str, Sequence[Row]]
    refused: dict[str, int]
    still_open: Sequence[Row]
    dirty: Sequence[Row]
    breaches: Sequence[str]
    left_running: Sequence[str] = field(default=())


async def ask(reader: Reader, *, accounts: list[str], accepted: set[str]) -> dict[str, Sequence[Row]]:
    """What the database says of the accounts' generations."""
    answers: dict[str, Sequence[Row]] = {
        name: await reader.all(_QUERIES[name], accounts=accounts)
        for name in ("counts", "failures", "delivered_twice")
    }
    answers["lost"] = await reader.all(_QUERIES["lost"], accounts=accounts, accepted=sorted(accepted))
    for name in ("leased_at_once", "uploaded_under_two_leases"):
        answers[name] = await reader.all(_QUERIES[name])
    return answers


def finished_runs(homes: Iterable[Path]) -> frozenset[str]:
    """Runs that the journals of these homes say were finished. Blocking; their agents have ended."""
    found: set[str] = set()
    for home in homes:
        db = sqlite3.connect(home / "host" / "journal.db")
        try:
            found |= {str(row[0]) for row in db.execute(_JOURNAL["finished"].text)}
        finally:
            db.close()
    return frozenset(found)


def figures(plan: PoolPlan, seen: Evidence) -> list[Figure]:
    """Each with its goal; those without one are told."""
    return [*_told(plan, seen), *_promised(seen)]


def _told(plan: PoolPlan, seen: Evidence) -> list[Figure]:
    counts = seen.rows["counts"][0]
    hit = sum(kill.at_work for kill in seen.kills)
    engines = sum(bool(kill.engine) for kill in seen.kills)
    return [
        Figure("pool_seed", plan.seed, "1", "", ok=True, raw=asdict(plan)),
        _some("pool_tasks", counts["tasks"], raw=counts),
        _some("pool_kills", len(seen.kills), raw=[asdict(kill) for kill in seen.kills]),
        _count("pool_kills_at_work", hit),
        _count("pool_kills_with_engine", engines),
        _count("pool_completed", counts["completed"]),
        _count("pool_released", counts["released"], raw=seen.rows["failures"]),
        _count("pool_in_doubt_first", counts["in_doubt"]),
        _count("pool_tried_on_two_cards", counts["moved"]),
        _count("pool_runs", len(seen.stretches)),
        _count("pool_refused", sum(seen.refused.values()), raw=seen.refused),
        _count("pool_uploaded_under_two_leases", seen.rows["uploaded_under_two_leases"][0]["tasks"]),
    ]


def _promised(seen: Evidence) -> list[Figure]:
    last_kill = max((kill.at for kill in seen.kills), default=0.0)
    last_end = seen.rows["counts"][0]["last_end"]
    after_s = max(0.0, last_end - last_kill) if last_end and not seen.still_open else float("inf")
    twice = [f"{asdict(one)} and {asdict(other)}" for one, other in at_once(seen.stretches)]
    twice += [f"{row['task_id']} leased by {row['what']}" for row in seen.rows["leased_at_once"]]
    unseen = sorted(seen.finished - {stretch.run_id for stretch in seen.stretches})
    return [
        _none("pool_tasks_lost", _lines(seen.rows["lost"])),
        _none("pool_tasks_open", [str(row) for row in seen.still_open]),
        at_most("pool_last_end_s", after_s, ENDS_WITHIN_S, "s"),
        _none("pool_run_twice_at_once", twice),
        _none("pool_runs_unseen", unseen),
        _none("pool_delivered_twice", _lines(seen.rows["delivered_twice"])),
        _none("audit_breaches", seen.breaches),
        _none("pool_cards_dirty", _lines(seen.dirty)),
        _none("pool_left_running", seen.left_running),
    ]


def _lines(rows: Sequence[Row]) -> list[str]:
    return [f"{row['task_id']}: {row['what']}" for row in rows]


def _none(name: str, found: Sequence[str]) -> Figure:
    return Figure(name, len(found), "count", "= 0", not found, list(found[:NAMED_MAX]))


def _some(name: str, value: int, raw: Any) -> Figure:
    """A drill without any proves nothing."""
    return Figure(name, value, "count", ">= 1", value >= 1, raw)


def _count(name: str, value: int, raw: Any = None) -> Figure:
    return Figure(name, value, "count", "", ok=True, raw=raw)
