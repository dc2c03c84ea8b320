"""Memory of runs: told by hosts with the end of each, learned from once, and never a reason to lose a report."""

import pytest

from infra import fleet
from infra.db import Database, Query
from infra.fleet import ObservedMemory
from tests.support.generations import SNAPSHOT, Ways, request
from workflows.contracts.generation import GenerationRequest, LeaseGrant
from workflows.contracts.hosts import RunMemory

LEASES = Query("leases", "select baseline_mib, peak_mib from lease order by offered_at")
CARD = "cpu-a-0"


def took(task_id: str, fence: int, *, baseline: int = 100, peak: int = 900, short: bool = False) -> RunMemory:
    return RunMemory(
        task_id=task_id,
        lease_id="as the host knows it",
        fence=fence,
        baseline_mib=baseline,
        peak_mib=peak,
        out_of_memory=short,
    )


async def placed(ways: Ways) -> tuple[GenerationRequest, LeaseGrant]:
    await ways.report()
    asked = request(await ways.account())
    lease = (await ways.admit(asked)).lease
    assert lease is not None
    return asked, lease


async def observed(database: Database) -> tuple[ObservedMemory, ...]:
    async with database.read() as reader:
        return await fleet.observed_memory(reader)


async def test_a_run_is_learned_from_once_however_often_it_is_told(ways: Ways, database: Database) -> None:
    asked, lease = await placed(ways)
    for _ in range(2):
        await ways.report(measured=(took(asked.task_id, lease.fence),))
    await ways.report(measured=(took(asked.task_id, lease.fence, peak=5_000),))
    (seen,) = await observed(database)
    assert (seen.model_id, seen.mode, seen.runs, seen.peak_mib, seen.oom) == ("image-upscale", "fast", 1, 900, 0)
    assert seen.suggested_mib == 990
    async with database.read() as reader:
        assert [tuple(row.values()) for row in await reader.all(LEASES)] == [(100, 900)]


async def test_memory_that_was_not_enough_raises_the_suggestion_above_the_budget(
    ways: Ways, database: Database
) -> None:
    """What was in use when an allocation failed may be far below what was wanted."""
    asked, lease = await placed(ways)
    await ways.report(measured=(took(asked.task_id, lease.fence, peak=90, short=True),))
    (seen,) = await observed(database)
    assert (seen.oom, seen.suggested_mib) == (1, -(-SNAPSHOT.vram_budget_mib * 12 // 10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"peak": -1},
        {"peak": 2**40},
        {"baseline": -1},
        {"fence": 2**70},
        {"fence": 99},
        {"task_id": "gen_other"},
    ],
)
async def test_what_cant_be_or_is_none_of_the_cards_runs_costs_only_itself(
    ways: Ways, database: Database, wrong: dict[str, object]
) -> None:
    asked, lease = await placed(ways)
    said = took(**{"task_id": asked.task_id, "fence": lease.fence} | wrong)  # type: ignore[arg-type]  # one field of any type
    await ways.report(measured=(said, took(asked.task_id, lease.fence)), vram_total_mib=777)
    assert [one.peak_mib for one in await observed(database)] == [900]
    async with database.read() as reader:
        assert [card.vram_total_mib for card in (await fleet.fleet(reader)).cards] == [777]
