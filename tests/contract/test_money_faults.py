"""Faults that took credits wrongly elsewhere, as a caller meets them: those that no other test states."""

import hashlib

import httpx

from tests.contract.world import CANVAS, User, World
from tests.support.pictures import png

CALLS = 20


async def test_callers_without_credits_cost_no_run_and_no_health(world: World) -> None:
    """Elsewhere "no money" was counted as the upstream's fault, and healthy machines were taken out."""
    poor = await world.user("poor", balance=1)
    await world.uncordon()
    began = len(world.workflows.admitted)
    for number in range(CALLS):
        answer = await world.create(poor, f"poor-{number:08}", scale="4")
        assert (answer.status_code, answer.json()["error"]["code"]) == (402, "insufficient_credits")
        assert "x-ic-credit-status" not in answer.headers, "nothing was held"
    assert len(world.workflows.admitted) == began, "the refusal begins no workflow"
    assert (await world.balance(poor)).available == 1
    rich = await world.user("rich")
    assert (await world.create(rich, "rich-00000001")).status_code == 202, "the card takes work as before"


async def test_the_same_operation_after_its_end_is_neither_run_nor_paid_again(world: World, user: User) -> None:
    """Elsewhere a replayed request id made new pictures, of which only the first was billed."""
    picture = png(seed=7)
    first = await world.create(user, "replayed-0001", picture)
    task_id = first.json()["id"]
    content = await world.complete(user, task_id)
    paid = await world.balance(user)
    for _ in range(5):
        again = await world.create(user, "replayed-0001", picture)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        served = await world.client.get(f"{CANVAS}/images/tasks/{task_id}/content", headers=user.headers())
        assert hashlib.sha256(served.content).digest() == hashlib.sha256(content).digest()
    assert await world.balance(user) == paid
    assert len({request.task_id for request in world.workflows.admitted}) == 1


async def test_a_client_that_retries_by_itself_has_one_task(world: World, user: User) -> None:
    """The hold is taken, its answer is lost, and the client's own retry posts again: one task, one hold."""
    world.workflows.lose_answer = True
    answers: list[httpx.Response] = []
    for _ in range(3):
        answers.append(await world.create(user, "retried-00001", png(seed=8)))
        world.workflows.lose_answer = False
    held = [answer for answer in answers if answer.status_code == 202]
    assert held
    assert len({answer.json()["id"] for answer in held}) == 1
    record = await world.record(user, held[0].json()["id"])
    assert (await world.balance(user)).held == record.price_credits
