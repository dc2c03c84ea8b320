"""Everybody at once, at random: nobody waits in a circle, and the audit is clean when the storm is over."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from infra import generations, leases
from infra.db import Database, DatabaseBusy, Query, Refused, Tx
from tests.support.generations import Ways, order, report, request
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import (
    AcceptLease,
    Advance,
    GenerationRequest,
    LeaseGrant,
    MarkUnknown,
    Release,
    Requeue,
)
from workflows.contracts.hosts import HostReport
from workflows.contracts.states import Phase, Status
from workflows.domain.placement.fleet import Given

CARDS = ("card-a", "card-b", "card-c")
ACTORS = 12
STEPS = 60
LATEST = Query(
    "latest",
    "select l.id::text as lease_id, l.card_uuid, c.label as card_label, l.fence"
    " from lease l join card c on c.uuid = l.card_uuid where l.task_id = %(task_id)s"
    " order by l.offered_at desc limit 1",
)

SETTLE = Query(
    "settle",
    "select act_v1('resolve', %(task_id)s, 'seen', 'operator:storm', '{}'),"
    " settle_v1(%(task_id)s, 3, 'operator:storm')",
)
"""What an operator ends has its act; he may settle without a result, and whether or not it is in doubt here."""


class Actor:
    """One process that does anything to anything."""

    def __init__(self, database: Database, asked: list[GenerationRequest], seed: int) -> None:
        self.database = database
        self.asked = asked
        self.dice = random.Random(seed)
        self.did: Counter[str] = Counter()

    async def live(self) -> None:
        for _ in range(STEPS):
            name = self.dice.choice([name for name in dir(self) if name.startswith("try_")])
            target = self.dice.choice(self.asked)
            try:
                async with self.database.read() as reader:
                    row = await reader.one(LATEST, task_id=target.task_id)
                lease = LeaseGrant.model_validate(row) if row else None
                async with self.database.single_statement() as tx:
                    await getattr(self, name)(tx, target, lease)
                self.did[name] += 1
            except Refused:
                self.did["refused"] += 1
            except DatabaseBusy as busy:
                circle = isinstance(busy.__cause__, psycopg.errors.DeadlockDetected)
                self.did["deadlock" if circle else "busy"] += 1

    async def try_admit(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        await generations.admit(tx, target)

    async def try_settle(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        await tx.one(SETTLE, task_id=target.task_id)

    async def try_release(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        failure = Failure(code=Code.CANCELED, message="Canceled.")
        await generations.release(
            tx,
            Release(task_id=target.task_id, status=Status.CANCELED, failure=failure, lease_id=None, actor="storm"),
        )

    async def try_report(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        cards = [report(uuid, settled_fence=1_000_000).cards[0] for uuid in CARDS]
        self.dice.shuffle(cards)
        await leases.record_report(tx, HostReport(host="host-a", cards=tuple(cards)))

    async def try_offer(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        await leases.offer(tx, Given(target.task_id, (self.dice.choice(CARDS),)))

    async def try_lapse(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        await leases.lapse(tx)

    async def try_accept(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        if lease:
            await leases.accept(tx, AcceptLease(task_id=target.task_id, lease=lease))

    async def try_fetch(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        if lease:
            await leases.open_order(tx, order(target.task_id, lease))

    async def try_requeue(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        if lease:
            await leases.requeue(tx, Requeue(task_id=target.task_id, lease=lease, never_ran=True))

    async def try_inspect(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        if lease:
            await generations.advance(tx, Advance(task_id=target.task_id, phase=Phase.INSPECTING))

    async def try_unknown(self, tx: Tx, target: GenerationRequest, lease: LeaseGrant | None) -> None:
        at = target.created_at
        if lease:
            order_of_silence = MarkUnknown(
                task_id=target.task_id,
                since=at,
                reason="r",
                awaiting="a",
                next_look_at=at,
                resolve_by=at + timedelta(hours=24),
            )
            await generations.mark_unknown(tx, order_of_silence)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nobody_waits_in_a_circle(ways: Ways, database: Database, conninfo: str, seed: int) -> None:
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:  # found before the lock timeout hides it
        name = connection.info.dbname
        await connection.execute(f"alter database {name} set deadlock_timeout = '20ms'".encode())
    async with Database(conninfo, application="storm", pool_max=ACTORS) as stormy:
        accounts = [await ways.account(200), await ways.account(200)]
        asked = [request(accounts[number % 2]) for number in range(60)]
        actors = [Actor(stormy, asked, seed * 1000 + number) for number in range(ACTORS)]
        await asyncio.gather(*(actor.live() for actor in actors))
    did = sum((actor.did for actor in actors), Counter[str]())
    assert did["deadlock"] == 0
    assert min(did[name] for name in dir(Actor) if name.startswith("try_")) > 0, did
    assert await ways.breaches() == []
