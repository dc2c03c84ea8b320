"""A card has one host; what others say about it, and what can't be, is refused and shown."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from infra import fleet, leases
from infra.db import Database, Query
from infra.fleet import CardState, CardView
from tests.support.generations import Ways, order, report, request
from workflows.contracts import timeouts
from workflows.contracts.hosts import ClaimRefused, HostReport, StaleLease, Telemetry
from workflows.domain.placement.fleet import Given

SILENT_FOR = Query(
    "silent_for", "update card set last_report_at = clock_timestamp() - make_interval(secs => %(seconds)s)"
)
BOOTS = Query("boots", "select boot_id from card_boot order by boot_id")
CARD = "cpu-a-0"


def said(host_id: str, *, boot_id: str, host: str = "host-a", **card: Any) -> HostReport:
    """A report of the card by a host of this identity; the name may be the same."""
    return report(CARD, boot_id=boot_id, **card).model_copy(update={"host_id": host_id, "host": host})


async def hear(database: Database, told: HostReport) -> tuple[ClaimRefused, ...]:
    async with database.single_statement() as tx:
        return await leases.record_report(tx, told)


async def silence(database: Database, seconds: float) -> None:
    async with database.transaction() as tx:
        await tx.run(SILENT_FOR, seconds=seconds)


async def card(database: Database) -> CardView:
    async with database.read() as reader:
        (found,) = (await fleet.fleet(reader)).cards
    return found


async def test_a_second_host_is_refused_while_the_first_reports_and_is_shown(database: Database) -> None:
    assert await hear(database, said("one", boot_id="boot-1")) == ()
    (refused,) = await hear(database, said("two", boot_id="boot-2", host="host-b", vram_total_mib=9))
    assert (refused.card_uuid, refused.reason) == (CARD, "host host-a has this card and reports it")
    await hear(database, said("two", boot_id="boot-2", host="host-b"))
    seen = await card(database)
    assert (seen.vram_total_mib, seen.state) == (4096, CardState.IDLE)
    assert [(claim.host, claim.host_id, claim.times) for claim in seen.claims] == [("host-b", "two", 2)]
    async with database.read() as reader:
        assert [row["boot_id"] for row in await reader.all(BOOTS)] == ["boot-1"], "a refused boot never owned it"
    assert await hear(database, said("one", boot_id="boot-1")) == ()


async def test_hosts_of_one_name_are_told_apart(database: Database) -> None:
    """As two machines made from one image, or two homes on one machine: each has a journal of its own."""
    await hear(database, said("one", boot_id="boot-1"))
    assert await hear(database, said("two", boot_id="boot-2")) != ()
    other = report("cpu-b-0", boot_id="boot-2").model_copy(update={"host_id": "two"})
    assert await hear(database, other) == ()
    async with database.read() as reader:
        hosts = [row.card.host for row in (await leases.snapshot(reader))[0]]
    assert hosts == ["one", "two"], "no gang of cards of both"


async def test_the_refused_host_gets_no_order(ways: Ways, database: Database) -> None:
    await hear(database, said("one", boot_id="boot-1"))
    asked = request(await ways.account())
    lease = (await ways.admit(asked)).lease
    assert lease is not None
    await hear(database, said("two", boot_id="boot-2"))
    async with database.single_statement() as tx:
        answer = await leases.open_order(tx, order(asked.task_id, lease, boot_id="boot-2"))
    assert isinstance(answer, StaleLease)
    assert answer.stray
    async with database.single_statement() as tx:
        assert await leases.open_order(tx, order(asked.task_id, lease, boot_id="boot-1")) == asked


async def test_a_restarted_agent_is_the_same_host(database: Database) -> None:
    await hear(database, said("one", boot_id="boot-1"))
    assert await hear(database, said("one", boot_id="boot-2")) == ()
    (refused,) = await hear(database, said("one", boot_id="boot-1"))
    assert refused.reason == "a newer agent of this host has this card"


async def test_a_silent_host_loses_its_card_and_may_have_it_again(database: Database) -> None:
    await hear(database, said("one", boot_id="boot-1"))
    gone = timeouts.HOST_GONE.total_seconds()
    await silence(database, gone - 1)
    assert await hear(database, said("two", boot_id="boot-2")) != (), "stale, but not gone"
    await silence(database, gone + 1)
    assert await hear(database, said("two", boot_id="boot-2")) == ()
    assert await hear(database, said("one", boot_id="boot-1")) != ()
    await silence(database, gone + 1)
    assert await hear(database, said("one", boot_id="boot-1")) == (), "the same agent, which was never restarted"
    assert await hear(database, said("two", boot_id="boot-2")) != ()


async def test_one_refused_card_keeps_no_other_from_being_heard(ways: Ways, database: Database) -> None:
    await hear(database, said("one", boot_id="boot-1"))
    both = said("two", boot_id="boot-2").cards + report("cpu-b-0", boot_id="boot-2").cards
    refused = await hear(database, HostReport(host="host-b", host_id="two", cards=both))
    assert [one.card_uuid for one in refused] == [CARD]
    async with database.read() as reader:
        cards, _ = await leases.snapshot(reader)
    assert {row.card.uuid: row.card.host for row in cards} == {CARD: "one", "cpu-b-0": "two"}


NONSENSE: list[dict[str, Any]] = [
    {"vram_total_mib": -1},
    {"vram_total_mib": 2**40},
    {"foreign_mib": -5},
    {"foreign_mib": 5000},
    {"telemetry": Telemetry(nonsense=("utilisation of 300 %",))},
]


@pytest.mark.parametrize("wrong", NONSENSE)
async def test_figures_that_cant_be_are_refused_and_several_in_a_row_take_the_card_out(
    ways: Ways, database: Database, wrong: dict[str, Any]
) -> None:
    good = Telemetry(utilisation=0.5)
    await ways.report(telemetry=good)
    for times in range(1, 4):
        await ways.report(**wrong)
        seen = await card(database)
        assert (seen.vram_total_mib, seen.foreign_mib, seen.telemetry) == (4096, 0, good), "the last good ones"
        assert seen.nonsense
        assert seen.state is (CardState.UNFIT if times == 3 else CardState.IDLE)
    waiting = request(await ways.account())
    assert (await ways.admit(waiting)).lease is None
    async with database.single_statement() as tx:
        assert not await leases.offer(tx, Given(waiting.task_id, (CARD,)))
    async with database.read() as reader:
        assert [row.silent for row in (await leases.snapshot(reader))[0]] == [True], "the placer leaves it alone"
    await ways.report(telemetry=good)
    assert (await card(database)).state is CardState.IDLE
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(waiting.task_id, (CARD,)))


async def test_a_fault_of_the_hardware_puts_the_card_into_quarantine_once(ways: Ways, database: Database) -> None:
    await ways.report(telemetry=Telemetry(ecc_errors=0))
    await ways.report(telemetry=Telemetry(ecc_errors=0, xid=13))
    assert (await card(database)).state is CardState.IDLE, "an Xid that a program caused"
    await ways.report(telemetry=Telemetry(ecc_errors=0, xid=79))
    seen = await card(database)
    assert (seen.state, seen.quarantine_reason) == (CardState.QUARANTINED, "the driver reported Xid 79")
    async with database.single_statement() as tx:
        await fleet.quarantine(tx, CARD, quarantined=False, reason="looked at", actor="test")
    await ways.report(telemetry=Telemetry(ecc_errors=0, xid=79))
    assert (await card(database)).state is CardState.IDLE, "told again, but not a new one"
    await ways.report(telemetry=Telemetry(ecc_errors=2, xid=79))
    assert (await card(database)).quarantine_reason == "uncorrected memory errors rose from 0 to 2"


async def test_cards_that_cant_be_believed_are_counted(
    ways: Ways, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, dict[str, float]] = {}

    def show(name: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
        shown[name] = {labels["kind"]: value for labels, value in values}

    monkeypatch.setattr("infra.metrics.show", show)
    await hear(database, said("one", boot_id="boot-1"))
    await hear(database, said("two", boot_id="boot-2"))
    await ways.report("cpu-b-0", vram_total_mib=-1)
    await ways.report("cpu-c-0", telemetry=Telemetry(xid=79))
    async with database.read() as reader:
        await fleet.show_trouble(reader)
    assert shown == {"cards_in_trouble": {"claimed": 1, "nonsense": 1, "quarantined": 1}}
