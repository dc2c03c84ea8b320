"""Thousands of steps at random against a small model of what should be true; the audit is clean after each.

The machine is the product's own: `holdfast bench ledger --check` runs it for longer.
"""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.postgres import PostgresServer
from workers.bench.money.ground import Loop, prepare
from workers.bench.money.machine import Platform
from workers.bench.money.scratch import Scratch

STEPS = 60
LIVES = 60
OPERATIONS_MIN = 2_000
"""Hypothesis ends some lives early; this many steps must have been taken, each followed by the whole audit."""


ROUNDS_MAX = 3
"""What a first round happened not to lead to, others at random are to."""
HAPPENS = {
    *("direct adjustment", "direct expiry", "direct loss", "direct promotion", "direct top_up"),
    *("pending", "post", "void", "settled in part", "drawn from lots", "leases"),
    "paid in part from several lots",
    *("unknown", "resolved by an operator", "delivered late"),
    *("refused insufficient_credits", "refused quota_exceeded", "refused spending_limit_reached"),
    *("refused account_frozen", "adjusted a generation upwards"),
}
"""What the steps must have led to; a machine that is refused everywhere proves nothing."""


@pytest.fixture
def scratch(postgres: PostgresServer) -> Iterator[Scratch]:
    """Databases like one that is prepared for checks."""
    loop = Loop()
    template = postgres.create_database()
    loop.run(prepare(postgres.conninfo(template)))
    yield Scratch(
        loop,
        create=lambda: postgres.create_database(template),
        conninfo=postgres.conninfo,
        drop=postgres.drop_database,
    )
    loop.close()
    postgres.drop_database(template)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_order_of_steps_keeps_money_media_and_machine_in_agreement(scratch: Scratch) -> None:
    class Bound(Platform):
        happened: ClassVar[Counter[str]] = Counter()

    Bound.scratch = scratch
    for round_ in range(ROUNDS_MAX):
        run_state_machine_as_test(
            Bound,
            settings=settings(
                max_examples=LIVES,
                stateful_step_count=STEPS,
                deadline=None,
                derandomize=round_ == 0,  # a failure in CI is the same failure here
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        if all(Bound.happened[what] for what in HAPPENS):
            break
    assert Bound.operations >= OPERATIONS_MIN
    assert {what for what in HAPPENS if not Bound.happened[what]} == set()
