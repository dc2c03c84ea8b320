"""The real orchestrator on a real server and a real database; the card and the judge are scripted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from infra import generations, leases, ledger
from infra.db import Database
from infra.settings import Settings
from infra.temporal.deployment import build_id, promote
from tests.flows.server import start_server
from tests.support.generations import Ways, blob, order, report
from workers.orchestration.placer import Placer
from workers.orchestration.relay import OutboxRelay
from workers.orchestrator import build_worker
from workers.runtime import Stop
from workflows.contracts import generation as g
from workflows.contracts import ids, queues, timeouts
from workflows.contracts.hosts import StaleLease
from workflows.contracts.media import Artifact
from workflows.contracts.states import RunVerdict


@dataclass
class Card:
    """A scripted card with its host: fetches orders and reports as a real one does."""

    database: Database
    uuid: str = "cpu-a-0"
    go: asyncio.Event = field(default_factory=asyncio.Event)
    ran: list[str] = field(default_factory=list)
    settled_fence: int = 0

    async def say(self) -> None:
        """Report."""
        async with self.database.transaction() as tx:
            await leases.record_report(tx, report(self.uuid, settled_fence=self.settled_fence))

    async def keep_saying(self) -> None:
        """Report often enough to stay fresh."""
        while True:
            await self.say()
            await asyncio.sleep(timeouts.BEAT.total_seconds())  # a host's own pace

    @activity.defn(name="run_on_card")
    async def run_on_card(self, asked: g.RunOrder) -> g.RunOutcome:
        """Fetch the order, wait for the test's word, finish."""
        grant = g.LeaseGrant(lease_id=asked.lease_id, card_uuid=asked.card_uuid, card_label="", fence=asked.fence)
        async with self.database.transaction() as tx:
            work = await leases.open_order(tx, order(asked.task_id, grant))
        assert not isinstance(work, StaleLease)
        self.ran.append(asked.task_id)
        while not self.go.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)  # the scripted run's own pace
        self.settled_fence = asked.fence
        await self.say()
        return g.RunOutcome(verdict=RunVerdict.FINISHED, files=(blob(f"output of {asked.task_id}"),))


class Judge:
    """A judge that finds all good, and the real keeping."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @activity.defn(name="inspect")
    async def inspect(self, asked: g.InspectOrder) -> g.Inspection:
        return g.Inspection(
            artifacts=tuple(
                Artifact(index=i, role=c.role, blob=f, width=c.width, height=c.height)
                for i, (f, c) in enumerate(zip(asked.files, asked.contracts, strict=True))
            )
        )

    @activity.defn(name="keep")
    async def keep(self, asked: g.KeepOrder) -> None:
        async with self._database.transaction() as tx:
            await generations.keep(tx, asked)


@dataclass
class Platform:
    """What a test works with."""

    client: Client
    database: Database
    card: Card
    ways: Ways

    def result(self, task_id: str) -> asyncio.Task[g.GenerationResult]:
        """The end of a generation, as its workflow returns it."""
        handle = self.client.get_workflow_handle(task_id, result_type=g.GenerationResult)
        return asyncio.create_task(handle.result())

    async def audit(self) -> list[str]:
        """Names of broken invariants."""
        async with self.database.read() as reader:
            return [finding.name for finding in await ledger.audit(reader) if not finding.ok]


@pytest.fixture
async def platform(database: Database, ways: Ways) -> AsyncIterator[Platform]:
    settings, stop = Settings(duplicate_window_s=0), Stop()  # tests send equal bodies
    async with contextlib.AsyncExitStack() as stack:
        environment = await stack.enter_async_context(await start_server())
        client = environment.client
        card, judge = Card(database), Judge(database)
        await card.say()
        for worker in (
            build_worker(client, settings, database),
            Worker(client, task_queue=queues.MEDIA, activities=[judge.inspect, judge.keep]),
            Worker(
                client,
                task_queue=ids.card_queue(card.uuid),
                activities=[card.run_on_card],
                max_concurrent_activities=1,
            ),
        ):
            await stack.enter_async_context(worker)
        await promote(client, build_id(), patience=timeouts.CARD_PICKUP)
        async with asyncio.TaskGroup() as group:
            saying = group.create_task(card.keep_saying())
            for loop in (Placer(database), OutboxRelay(database, client)):
                group.create_task(loop.run(stop))
            yield Platform(client, database, card, ways)
            saying.cancel()
            stop.ask()
