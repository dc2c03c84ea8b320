"""A pool drill is right only when every promise was kept, and only when there was something to keep."""

from dataclasses import replace
from typing import Any

import pytest

from workers.drill.pool.kills import Kill
from workers.drill.pool.plan import PoolPlan
from workers.drill.pool.verdict import ENDS_WITHIN_S, Evidence, figures
from workers.drill.pool.watch import Stretch

KILLED_AT = 1000.0
COUNTS = {"tasks": 3, "completed": 2, "released": 1, "in_doubt": 1, "moved": 0, "last_end": KILLED_AT + 12.5}
ROW = {"task_id": "task_1", "what": "what was found"}
RIGHT = Evidence(
    kills=[
        Kill(KILLED_AT - 5, "host-1", "", 0.2, at_work=True),
        Kill(KILLED_AT, "host-2", "cpu-b-0", 6.0, at_work=False),
    ],
    stretches=[Stretch("a", "task_1-1", 990.0, 995.0), Stretch("b", "task_1-1", 1001.0, 1004.0)],
    finished=frozenset({"task_1-1"}),
    rows={
        "counts": [COUNTS],
        "failures": [],
        "lost": [],
        "delivered_twice": [],
        "leased_at_once": [],
        "uploaded_under_two_leases": [{"tasks": 0}],
    },
    refused={},
    still_open=[],
    dirty=[],
    breaches=[],
)


def missed(seen: Evidence) -> set[str]:
    return {figure.name for figure in figures(PoolPlan(60, seed=1), seen) if not figure.ok}


def with_rows(**rows: list[dict[str, Any]]) -> Evidence:
    return replace(RIGHT, rows=RIGHT.rows | rows)


def test_all_kept() -> None:
    assert missed(RIGHT) == set()
    by_name = {figure.name: figure.value for figure in figures(PoolPlan(60, seed=1), RIGHT)}
    assert by_name["pool_kills"] == 2
    assert by_name["pool_kills_with_engine"] == by_name["pool_kills_at_work"] == 1
    assert by_name["pool_last_end_s"] == 12.5


@pytest.mark.parametrize(
    ("seen", "figure"),
    [
        (with_rows(lost=[ROW]), "pool_tasks_lost"),
        (with_rows(delivered_twice=[ROW]), "pool_delivered_twice"),
        (with_rows(leased_at_once=[ROW]), "pool_run_twice_at_once"),
        (
            replace(RIGHT, stretches=[*RIGHT.stretches, Stretch("c", "task_1-9", 1003.0, 1005.0)]),
            "pool_run_twice_at_once",
        ),
        (replace(RIGHT, finished=frozenset({"task_1-1", "task_2-1"})), "pool_runs_unseen"),
        (with_rows(counts=[COUNTS | {"last_end": KILLED_AT + ENDS_WITHIN_S + 1}]), "pool_last_end_s"),
        (replace(RIGHT, dirty=[ROW]), "pool_cards_dirty"),
        (replace(RIGHT, breaches=["holds_resolved_twice = 1"]), "audit_breaches"),
        (replace(RIGHT, left_running=["pid 1"]), "pool_left_running"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_promise_that_was_broken_shows(seen: Evidence, figure: str) -> None:
    assert missed(seen) == {figure}


def test_what_never_ended_has_no_time() -> None:
    assert missed(replace(RIGHT, still_open=[ROW])) == {"pool_tasks_open", "pool_last_end_s"}


def test_a_drill_without_tasks_or_kills_proves_nothing() -> None:
    assert "pool_tasks" in missed(with_rows(counts=[COUNTS | {"tasks": 0}]))
    assert "pool_kills" in missed(replace(RIGHT, kills=[]))
