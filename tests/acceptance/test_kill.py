"""Ten kills, each where it hurts; `holdfast drill kill` has all of them.

Every one has to end in the very picture of an undisturbed run, paid for, or with its credits back; and the
audit has to be clean.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from workers.drill.cases import Victim, chosen
from workers.drill.course import prepared
from workers.drill.kill import KillDrill

TEN = (
    "api@running",
    "orchestrator@held",
    "orchestrator@settling",
    "hostagent@running",
    "engine@running",
    "postgres@settling",
    "temporal@running",
    "media@keeping",
    "point:admit.committed",
    "point:settle.committed",
)

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def drill() -> AsyncIterator[KillDrill]:
    """One stack for all ten: what a kill leaves behind must not hurt the next generation either."""
    async with prepared(lambda _: None) as made:
        yield made


@pytest.mark.parametrize("name", TEN)
async def test_a_kill_ends_in_the_right_picture_or_a_released_hold(drill: KillDrill, name: str) -> None:
    (case,) = chosen(name)
    ending = await drill.run(case)
    assert ending.ok, ending


def test_each_process_of_the_promise_is_among_the_ten() -> None:
    assert {case.victim for case in chosen(",".join(TEN)) if case.victim} == set(Victim)
