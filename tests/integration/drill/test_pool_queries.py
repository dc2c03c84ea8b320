"""What the pool drill asks the database finds what it is there to find, and nothing in a right course."""

from typing import Any

from infra import leases
from infra.db import Database, Query, load
from tests.support.generations import Ways, order, request
from workers.drill.pool import verdict
from workflows.contracts.generation import AcceptLease, GenerationRequest, LeaseGrant, Requeue
from workflows.domain.placement.fleet import Given

QUERIES = load("workers.drill.pool")
OPEN_LEASE = Query(
    "open_lease",
    "select l.id::text as lease_id, l.card_uuid, c.label as card_label, l.fence"
    " from lease l join card c on c.uuid = l.card_uuid where l.state <> 'ended' and l.task_id = %(task_id)s",
)
TELL_AGAIN = Query("tell_again", "insert into event (task_id, kind) values (%(task_id)s, 'settled')")
END_LATER = Query(
    "end_later",
    "update lease set ended_at = clock_timestamp() + interval '1 hour'"
    " where task_id = %(task_id)s and state = 'ended'",
)


async def asked(database: Database, query: str, **values: Any) -> list[str]:
    """The tasks, or cards, that a query finds."""
    async with database.read() as reader:
        return [str(row["task_id"]) for row in await reader.all(QUERIES[query], **values)]


async def placed(ways: Ways, made: GenerationRequest, card: str) -> LeaseGrant:
    """Place what waits on a card, and accept."""
    await ways.report(card)
    async with ways.database.single_statement() as tx:
        await leases.offer(tx, Given(made.task_id, (card,)))
    async with ways.database.read() as reader:
        lease = LeaseGrant.model_validate(await reader.one(OPEN_LEASE, task_id=made.task_id))
    async with ways.database.single_statement() as tx:
        await leases.accept(tx, AcceptLease(task_id=made.task_id, lease=lease))
    return lease


async def test_lost_is_what_ended_neither_paid_nor_given_back(ways: Ways, database: Database) -> None:
    account = await ways.account()
    paid, back, still_open = (request(account) for _ in range(3))
    for each in (paid, back, still_open):
        await ways.admit(each)
    await ways.keep(paid)
    await ways.settle(paid.task_id)
    await ways.release(back.task_id)
    known = [paid.task_id, back.task_id, still_open.task_id]
    found = await asked(database, "lost", accounts=[account], accepted=[*known, "task_nowhere"])
    assert sorted(found) == sorted([still_open.task_id, "task_nowhere"])
    assert await asked(database, "still_open") == [still_open.task_id]


async def test_a_delivery_that_is_told_twice_is_found(ways: Ways, database: Database) -> None:
    account = await ways.account()
    made = request(account)
    await ways.admit(made)
    await ways.keep(made)
    await ways.settle(made.task_id)
    assert await asked(database, "delivered_twice", accounts=[account]) == []
    async with database.transaction() as tx:
        await tx.run(TELL_AGAIN, task_id=made.task_id)
    assert await asked(database, "delivered_twice", accounts=[account]) == [made.task_id]


async def test_results_of_what_was_given_back_are_found(ways: Ways, database: Database) -> None:
    account = await ways.account()
    made = request(account)
    await ways.admit(made)
    await ways.keep(made)
    await ways.release(made.task_id)
    assert await asked(database, "delivered_twice", accounts=[account]) == [made.task_id]


async def test_two_leases_count_only_at_one_moment(ways: Ways, database: Database) -> None:
    account = await ways.account()
    made = request(account)
    await ways.admit(made)
    first = await placed(ways, made, "cpu-a-0")
    async with database.single_statement() as tx:
        await leases.requeue(tx, Requeue(task_id=made.task_id, lease=first))
    await placed(ways, made, "cpu-b-0")
    assert await asked(database, "leased_at_once") == []
    async with database.transaction() as tx:
        await tx.run(END_LATER, task_id=made.task_id)
    assert await asked(database, "leased_at_once") == [made.task_id]


async def test_a_card_is_dirty_until_its_fence_is_over(ways: Ways, database: Database) -> None:
    account = await ways.account()
    made = request(account)
    await ways.admit(made)
    lease = await placed(ways, made, "cpu-a-0")
    await ways.report("cpu-b-0")
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(made.task_id, lease))
    await ways.release(made.task_id)
    await ways.report("cpu-a-0")
    assert await asked(database, "dirty_cards", apart=[]) == ["cpu-a-0"]
    assert await asked(database, "dirty_cards", apart=["cpu-a-0"]) == []
    await ways.report("cpu-a-0", settled_fence=lease.fence)
    assert await asked(database, "dirty_cards", apart=[]) == []


async def test_counts_and_reasons_are_of_the_accounts_alone(ways: Ways, database: Database) -> None:
    account, other = await ways.account(), await ways.account()
    back, others = request(account), request(other)
    await ways.admit(back)
    await ways.admit(others)
    await ways.release(back.task_id)
    async with database.read() as reader:
        rows = await verdict.ask(reader, accounts=[account], accepted={back.task_id})
    counts = dict(rows["counts"][0])
    assert counts.pop("last_end") > 0
    assert counts == {"tasks": 1, "completed": 0, "released": 1, "in_doubt": 0, "moved": 0}
    assert list(rows["failures"]) == [{"code": "upstream_failed", "times": 1}]
    assert rows["uploaded_under_two_leases"][0]["tasks"] == 0
