"""A generation's course over the real database: placed at once, or offered when the card is free."""

from infra import ledger
from infra.temporal import generations
from tests.integration.orchestration.conftest import Platform
from tests.support.eventually import eventually
from tests.support.generations import request
from workflows.contracts.generation import CancelRequest
from workflows.contracts.states import CancelAnswer, CreditStatus, Status


async def test_the_second_is_offered_the_card_when_the_first_is_over(platform: Platform) -> None:
    account = await platform.ways.account()
    first, second = request(account), request(account)
    at_once = await generations.admit(platform.client, first)
    waits = await generations.admit(platform.client, second)
    assert at_once.lease is not None
    assert waits.lease is None
    await eventually(lambda: platform.card.ran == [first.task_id], what="the first to run")
    platform.card.go.set()
    results = [await platform.result(each.task_id) for each in (first, second)]
    assert [each.status for each in results] == [Status.COMPLETED, Status.COMPLETED]
    assert platform.card.ran == [first.task_id, second.task_id]
    async with platform.database.read() as reader:
        balance = await ledger.balance(reader, account)
    assert (balance.available, balance.held, balance.spent) == (80, 0, 20)
    assert await platform.audit() == []


async def test_a_waiting_one_is_canceled_and_never_offered(platform: Platform) -> None:
    account = await platform.ways.account()
    first, second = request(account), request(account)
    await generations.admit(platform.client, first)
    await generations.admit(platform.client, second)
    reply = await generations.request_cancel(
        platform.client, second.task_id, CancelRequest(reason="enough", actor="member-1")
    )
    assert (reply.answer, reply.credit_status) == (CancelAnswer.CANCELED, CreditStatus.RELEASED)
    platform.card.go.set()
    assert (await platform.result(first.task_id)).status is Status.COMPLETED
    assert (await platform.result(second.task_id)).status is Status.CANCELED
    assert platform.card.ran == [first.task_id]
    assert await platform.audit() == []


async def test_a_broke_account_is_refused_and_may_try_again_after_a_top_up(platform: Platform) -> None:
    platform.card.go.set()
    account = await platform.ways.account(credits_granted=0)
    asked = request(account)
    refused = await generations.admit(platform.client, asked)
    assert refused.refusal is not None
    async with platform.database.transaction() as tx:
        await ledger.grant(tx, account_id=account, credits=10, reason="top-up", actor="test", key=account)
    admitted = await generations.admit(platform.client, asked.model_copy(update={"attempt": 2}))
    assert admitted.credit_status is CreditStatus.HELD
    assert (await platform.result(asked.task_id)).status is Status.COMPLETED
    assert await platform.audit() == []
