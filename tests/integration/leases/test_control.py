"""What operators do with cards: each act is kept with who and why, and what runs goes on."""

import pytest

from infra import fleet
from infra.db import Database, Query
from infra.db.errors import NoSuchRow, ReasonMissing
from infra.fleet import CardState
from tests.support.generations import Ways, request
from workflows.domain.placement.fleet import Share

OBSERVE = Query("observe", "select observe_memory_v1(%(task_id)s, %(peak_mib)s, %(oom)s)")
ACTS = Query("acts", "select act, subject, reason, actor from operator_act where act <> 'grant' order by id")


async def acts(database: Database) -> list[tuple[str, ...]]:
    async with database.read() as reader:
        return [tuple(row.values()) for row in await reader.all(ACTS)]


async def states(database: Database) -> dict[str, CardState]:
    async with database.read() as reader:
        return {card.uuid: card.state for card in (await fleet.fleet(reader)).cards}


async def test_a_cordon_of_a_host_stops_new_work_on_all_of_it_and_leaves_what_runs(
    ways: Ways, database: Database
) -> None:
    account = await ways.account()
    for uuid in ("a", "b"):
        await ways.report(uuid)
    running = await ways.admit(request(account))
    assert running.lease is not None
    async with database.single_statement() as tx:
        assert await fleet.cordon(tx, "host-a", cordoned=True, reason="new driver", actor="operator:ada") == 2
    assert (await ways.admit(request(account))).lease is None
    assert await ways.breaches() == []
    assert set((await states(database)).values()) == {CardState.CORDONED}
    async with database.single_statement() as tx:
        assert await fleet.cordon(tx, "a", cordoned=False, reason="done", actor="operator:ada") == 1
    assert await acts(database) == [
        ("cordon", "card:host-a", "new driver", "operator:ada"),
        ("uncordon", "card:a", "done", "operator:ada"),
    ]


async def test_a_quarantine_by_hand_and_back(ways: Ways, database: Database) -> None:
    await ways.report("a")
    async with database.single_statement() as tx:
        assert await fleet.quarantine(tx, "a", quarantined=True, reason="odd pictures", actor="operator:ada") == 1
    assert (await ways.admit(request(await ways.account()))).lease is None
    assert await states(database) == {"a": CardState.QUARANTINED}
    async with database.single_statement() as tx:
        assert await fleet.quarantine(tx, "a", quarantined=True, reason="again", actor="operator:ada") == 0
    async with database.single_statement() as tx:
        assert await fleet.quarantine(tx, "a", quarantined=False, reason="looked", actor="operator:ada") == 1
    assert await states(database) == {"a": CardState.IDLE}


@pytest.mark.parametrize("name", ["nowhere", ""])
async def test_a_card_that_nobody_knows_is_refused_by_name(ways: Ways, database: Database, name: str) -> None:
    await ways.report("a")
    with pytest.raises(NoSuchRow, match="no card"):
        async with database.single_statement() as tx:
            await fleet.cordon(tx, name, cordoned=True, reason="a reason", actor="operator:ada")
    assert await acts(database) == []


@pytest.mark.parametrize("reason", ["", " ", "\n"])
async def test_an_act_without_a_reason_changes_nothing(ways: Ways, database: Database, reason: str) -> None:
    account = await ways.account()
    await ways.report("a")
    with pytest.raises(ReasonMissing):
        async with database.single_statement() as tx:
            await fleet.cordon(tx, "a", cordoned=True, reason=reason, actor="operator:ada")
    with pytest.raises(ReasonMissing):
        async with database.single_statement() as tx:
            await fleet.set_share(tx, account_id=account, share=Share(2.0), reason=reason, actor="operator:ada")
    assert await states(database) == {"a": CardState.IDLE}
    assert await acts(database) == []


async def test_memory_that_was_seen_suggests_a_budget(ways: Ways, database: Database) -> None:
    asked = request(await ways.account())
    await ways.admit(asked)
    for peak_mib, out_of_memory in ((700, False), (400, False), (900, True)):
        async with database.single_statement() as tx:
            await tx.run(OBSERVE, task_id=asked.task_id, peak_mib=peak_mib, oom=out_of_memory)
    async with database.read() as reader:
        (seen,) = await fleet.observed_memory(reader)
    assert (seen.runs, seen.peak_mib, seen.oom, seen.suggested_mib) == (3, 900, 1, 1080)
