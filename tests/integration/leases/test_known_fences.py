"""What hosts tell of their orders: fences that a restored database has forgotten, and orders that were refused."""

import pytest

from infra import fleet, leases
from infra.db import Database, Query
from tests.integration.leases.test_fences import accept, fetch, granted, offered, requeue, stale
from tests.support.generations import Ways, report, request
from workflows.contracts.hosts import OrderFault, RefusedOrder, StaleLease

CARD = "cpu-a-0"
NEXT_FENCE = Query("next_fence", "select next_fence from card where uuid = %(card)s")


async def tell(database: Database, *, boot_id: str = "boot-1", **changes: object) -> None:
    said = report(CARD, boot_id=boot_id)
    (card,) = said.cards
    async with database.single_statement() as tx:
        await leases.record_report(tx, said.model_copy(update={"cards": (card.model_copy(update=changes),)}))


async def next_fence(database: Database) -> int:
    async with database.read() as reader:
        return int(await reader.value(NEXT_FENCE, card=CARD))


async def test_fences_go_on_above_what_the_host_was_ordered_under(ways: Ways, database: Database) -> None:
    """As after a restore: the host would refuse each fence that is counted a second time."""
    made = request(await ways.account())
    await ways.admit(made)
    await tell(database)
    old = await granted(database, made.task_id)
    await tell(database, known_fence=7)
    answer = await fetch(database, made.task_id, old)
    assert isinstance(answer, StaleLease), "its host would refuse it"
    assert await requeue(database, made.task_id, old)
    lease = await offered(database, made.task_id)
    assert lease is not None
    assert lease.fence == 8
    assert await accept(database, made.task_id, lease)
    assert await fetch(database, made.task_id, lease) == made
    assert await ways.breaches() == []


@pytest.mark.parametrize("known", [0, 1, -5, 2**52 + 1, 2**70])
async def test_a_fence_that_says_nothing_new_or_nonsense_changes_nothing(
    ways: Ways, database: Database, known: int
) -> None:
    made = request(await ways.account())
    await ways.admit(made)
    await tell(database)
    await granted(database, made.task_id)
    await tell(database, known_fence=known)
    assert await next_fence(database) == 2


async def test_only_the_cards_owner_is_heard(ways: Ways, database: Database) -> None:
    await tell(database, boot_id="boot-1")
    await tell(database, boot_id="boot-2")
    refused = RefusedOrder(fault=OrderFault.UNSIGNED, reason="a stray's", task_id="gen_x", fence=1)
    await tell(database, boot_id="boot-1", known_fence=50, refused_order=refused)
    assert await next_fence(database) == 1
    async with database.read() as reader:
        (card,) = (await fleet.fleet(reader)).cards
    assert card.refused_order is None


async def test_operators_see_which_order_a_host_refused_and_why(ways: Ways, database: Database) -> None:
    refused = RefusedOrder(fault=OrderFault.EXPIRED, reason="it ended 9 s ago", task_id="gen_x", fence=3, times=2)
    await tell(database, refused_order=refused)
    await tell(database, refused_order=refused)
    await tell(database, boot_id="boot-2")
    async with database.read() as reader:
        (card,) = (await fleet.fleet(reader)).cards
    assert card.refused_order is not None, "also after the agent was started anew"
    assert card.refused_order.model_dump(exclude={"age_s"}) == refused.model_dump()
    assert 0 <= card.refused_order.age_s < 60


async def test_a_lease_delivers_from_its_own_card_only(ways: Ways, database: Database) -> None:
    made = request(await ways.account())
    await ways.admit(made)
    await tell(database)
    lease = await granted(database, made.task_id)
    await fetch(database, made.task_id, lease)

    async def why(card_uuid: str) -> StaleLease | None:
        async with database.read() as reader:
            return await leases.check_fence(
                reader,
                task_id=made.task_id,
                lease_id=lease.lease_id,
                fence=lease.fence,
                card_uuid=card_uuid,
            )

    assert await why(CARD) is None
    assert await why("cpu-b-0") == StaleLease(reason="the lease is of another card")
    assert await stale(database, made.task_id, lease) is None, "a host of before doesn't say"
