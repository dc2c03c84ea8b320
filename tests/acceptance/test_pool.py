"""Two hosts of two cards are killed at random under load for 15 s; `holdfast drill pool` kills four for minutes.

No task is lost, none runs on two cards at the same time, none is delivered twice, the audit is clean, and every
card takes work in the end.
"""

import pytest

from workers.drill.pool.course import pool_drill
from workers.drill.pool.plan import PoolPlan

SHORT = PoolPlan(seconds=15, seed=1, hosts=2, accounts=3, in_flight=3, gap_s=(0.5, 4.0))

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.timeout(300)]


async def test_nothing_is_lost_or_done_twice_while_hosts_die() -> None:
    figures = await pool_drill(SHORT, lambda _: None)
    assert [figure for figure in figures if not figure.ok] == []
    count = {figure.name: int(figure.value or 0) for figure in figures}
    assert count["pool_tasks"] > count["pool_kills"] > 1
    assert count["pool_runs"] >= count["pool_completed"] > 0, "a task was delivered that no engine ran"
