"""Hosts whose reports come and go: what runs on them is left alone, and nothing waits anew because of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from infra import leases
from infra.db import Query
from tests.support.eventually import eventually
from tests.support.generations import Ways, order, report, request
from workers.orchestration.placer import Placer
from workers.runtime import Stop
from workflows.contracts.generation import Admission
from workflows.contracts.hosts import HostReport, Running

HOSTS = ("host-a", "host-b", "host-c")
CARDS_EACH = 2
FLAPS = 10
GO_SILENT = Query(
    "go_silent",
    "update card set last_report_at = clock_timestamp() - interval '6 seconds' where host = any (%(hosts)s)",
)
OPEN_LEASES = Query(
    "open_leases", "select id, task_id, card_uuid, state from lease where state <> 'ended' order by id"
)
REQUEUED = Query(
    "requeued", "select count(*) from lease where end_reason in ('requeued', 'lapsed') or state = 'offered'"
)
WAITING = Query("waiting", "select count(*) from ticket")
PHASES = Query("phases", "select task_id, phase, status from generation order by task_id")


class Fleet:
    """Three hosts of two cards each, all at work, and what they report."""

    def __init__(self, ways: Ways) -> None:
        """Nothing runs yet."""
        self._ways = ways
        self.database = ways.database
        self.running: dict[str, Running] = {}
        self.settled: dict[str, int] = {}

    def reports(self, host: str) -> HostReport:
        """What a host says now."""
        cards = [
            report(
                f"cpu-{host}-{number}",
                boot_id=f"boot-{host}",
                running=self.running.get(f"cpu-{host}-{number}"),
                settled_fence=self.settled.get(f"cpu-{host}-{number}", 0),
            ).cards[0]
            for number in range(CARDS_EACH)
        ]
        return HostReport(host=host, host_id=host, cards=tuple(cards))

    async def report(self, *hosts: str) -> None:
        """These are heard."""
        for host in hosts:
            async with self.database.single_statement() as tx:
                assert await leases.record_report(tx, self.reports(host)) == ()

    async def begin(self) -> Admission:
        """One more generation, which begins to run where it is placed at once."""
        admitted = await self._ways.admit(request(await self._ways.account()))
        if admitted.lease is not None:
            card = admitted.lease.card_uuid
            host = card.removeprefix("cpu-").rpartition("-")[0]
            async with self.database.single_statement() as tx:
                await leases.open_order(tx, order(admitted.task_id, admitted.lease, boot_id=f"boot-{host}"))
            self.running[card] = Running(task_id=admitted.task_id, fence=admitted.lease.fence, fraction=0.1)
        return admitted

    async def all(self, query: Query) -> list[tuple[object, ...]]:
        """What the database has."""
        async with self.database.read() as reader:
            return [tuple(row.values()) for row in await reader.all(query)]


@pytest.fixture
async def fleet(ways: Ways) -> AsyncIterator[Fleet]:
    """All cards at work, two more wait, and a placer looks after them."""
    fleet = Fleet(ways)
    await fleet.report(*HOSTS)
    for _ in range(len(HOSTS) * CARDS_EACH + 2):
        await fleet.begin()
    await fleet.report(*HOSTS)
    stop = Stop()
    placing = asyncio.create_task(Placer(ways.database).run(stop))
    yield fleet
    stop.ask()
    await placing


async def go_silent(fleet: Fleet, *hosts: str) -> None:
    async with fleet.database.transaction() as tx:
        await tx.run(GO_SILENT, hosts=list(hosts))


async def test_reports_that_come_and_go_requeue_nothing(fleet: Fleet, ways: Ways) -> None:
    before = await fleet.all(OPEN_LEASES), await fleet.all(PHASES)
    assert (len(before[0]), await fleet.all(WAITING)) == (6, [(2,)])
    for turn in range(FLAPS):
        await go_silent(fleet, *(HOSTS if turn % 2 else HOSTS[:1]))
        async with fleet.database.single_statement() as tx:
            await leases.lapse(tx)
        await fleet.report(*HOSTS[turn % 3 :])
    await fleet.report(*HOSTS)
    assert (await fleet.all(OPEN_LEASES), await fleet.all(PHASES)) == before
    assert (await fleet.all(REQUEUED), await fleet.all(WAITING)) == ([(0,)], [(2,)])
    assert await ways.breaches() == []


async def test_a_lost_host_of_several_cards_keeps_its_runs_and_the_others_take_the_work(
    fleet: Fleet, ways: Ways
) -> None:
    """Its cards stay taken: they may be working. What waits goes to the first card of a host that is heard."""
    await go_silent(fleet, "host-a")
    card, over = next((c, run) for c, run in fleet.running.items() if c.startswith("cpu-host-b"))
    lost = {task for _, task, uuid, _ in await fleet.all(OPEN_LEASES) if str(uuid).startswith("cpu-host-a")}
    del fleet.running[card]
    fleet.settled[card] = over.fence
    await ways.release(over.task_id)
    await fleet.report("host-b", "host-c")

    async def placed() -> bool:
        await fleet.report("host-b", "host-c")
        return await fleet.all(WAITING) == [(1,)]

    await eventually(placed, what="the first who waits to be placed")
    leased = {str(uuid): str(task) for _, task, uuid, _ in await fleet.all(OPEN_LEASES)}
    assert {task for uuid, task in leased.items() if uuid.startswith("cpu-host-a")} == lost
    assert leased[card] != over.task_id
    status = {task: (phase, status) for task, phase, status in await fleet.all(PHASES)}
    assert {status[task] for task in lost} == {("running", "pending")}, "not failed by silence"
    assert await ways.breaches() == []
