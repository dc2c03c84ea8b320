"""Many at once: exactly as many holds as the balance bears, exactly one end for each."""

import asyncio
from collections import Counter

import pytest

from infra.db import Database, DatabaseBusy, Query
from infra.db.errors import ContradictoryClosing
from tests.support.generations import Ways, request
from workflows.contracts.failures import Code
from workflows.contracts.generation import Admission, Closing, GenerationRequest
from workflows.contracts.states import AdmissionOutcome, CreditStatus

LOCK_ACCOUNT = Query("lock_account", "select from account where id = %(id)s for no key update")


async def persistently(ways: Ways, asked: GenerationRequest) -> Admission:
    """As a local activity does: a step that was not got to in time is tried again."""
    while True:
        try:
            return await ways.admit(asked)
        except DatabaseBusy:
            continue


async def test_sixty_holds_of_ten_on_a_hundred_credits_are_exactly_ten(ways: Ways) -> None:
    account = await ways.account(100)
    answers = await asyncio.gather(*(persistently(ways, request(account)) for _ in range(60)))
    outcomes = Counter(answer.outcome for answer in answers)
    assert outcomes == {AdmissionOutcome.HELD: 10, AdmissionOutcome.REFUSED: 50}
    assert {answer.refusal.code for answer in answers if answer.refusal} == {Code.INSUFFICIENT_CREDITS}
    assert await ways.balance(account) == (0, 100, 0)
    assert await ways.breaches() == []


async def test_sixty_four_identical_admissions_are_one_hold_with_one_answer(ways: Ways) -> None:
    account = await ways.account(100)
    await ways.report()
    asked = request(account, "the-same")
    answers = await asyncio.gather(*(persistently(ways, asked) for _ in range(64)))
    assert len(set(map(repr, answers))) == 1
    assert answers[0].outcome is AdmissionOutcome.HELD
    assert answers[0].lease is not None, "the idle card is part of the answer, also of a repetition's"
    assert await ways.balance(account) == (90, 10, 0)
    assert await ways.breaches() == []


async def test_twelve_racing_ends_for_each_hold_are_one_each(ways: Ways) -> None:
    account = await ways.account(100)
    tasks = [(await ways.admit(request(account))).task_id for _ in range(10)]

    async def end(task_id: str, settles: bool) -> Closing:
        while True:
            try:
                return await (ways.settle(task_id, 7, "operator:test") if settles else ways.release(task_id))
            except DatabaseBusy:
                continue

    racers = [(task_id, number % 2 == 0) for number in range(12) for task_id in tasks]
    answers = await asyncio.gather(*(end(task_id, settles) for task_id, settles in racers))
    ends = {task_id: {a.credit_status for a in answers if a.task_id == task_id} for task_id in tasks}
    assert all(len(statuses) == 1 for statuses in ends.values()), "everybody hears of the same end"
    settled = sum(statuses == {CreditStatus.SETTLED} for statuses in ends.values())
    assert await ways.balance(account) == (100 - 7 * settled, 0, 7 * settled)
    assert await ways.breaches() == []


async def test_one_idle_card_goes_to_one_of_many_accounts(ways: Ways) -> None:
    await ways.report()
    accounts = await asyncio.gather(*(ways.account(10) for _ in range(20)))
    answers = await asyncio.gather(*(persistently(ways, request(account)) for account in accounts))
    assert sum(answer.lease is not None for answer in answers) == 1
    assert await ways.breaches() == []


async def test_the_queue_bound_holds_for_many_accounts_at_once(ways: Ways) -> None:
    accounts = await asyncio.gather(*(ways.account(10) for _ in range(20)))
    bounded = request("unused").model.model_copy(update={"queue_max": 7})
    answers = await asyncio.gather(*(persistently(ways, request(account, model=bounded)) for account in accounts))
    refused = [answer.refusal.code for answer in answers if answer.refusal]
    assert refused == [Code.QUEUE_FULL] * 13
    assert await ways.breaches() == []


async def test_an_operation_refused_in_a_race_is_never_held_as_well(ways: Ways) -> None:
    account = await ways.account(10)
    both = [request(account, "left"), request(account, "right")]
    answers = await asyncio.gather(*(persistently(ways, asked) for asked in both * 8))
    by_task: dict[str, set[AdmissionOutcome]] = {}
    for answer in answers:
        by_task.setdefault(answer.task_id, set()).add(answer.outcome)
    assert sorted(map(sorted, by_task.values())) == [["held"], ["refused"]]
    assert await ways.breaches() == []


async def test_a_hot_account_is_answered_busy_and_takes_nothing(ways: Ways, database: Database) -> None:
    account = await ways.account(10)
    async with database.transaction() as tx:
        await tx.one(LOCK_ACCOUNT, id=account)
        with pytest.raises(DatabaseBusy):
            await ways.admit(request(account, "op"))
    assert await ways.balance(account) == (10, 0, 0)
    assert (await ways.admit(request(account, "op"))).outcome is AdmissionOutcome.HELD


async def test_two_settlements_of_different_amounts_contradict(ways: Ways) -> None:
    account = await ways.account(10)
    task_id = (await ways.admit(request(account))).task_id
    await ways.settle(task_id, 4, "operator:test")
    with pytest.raises(ContradictoryClosing):
        await ways.settle(task_id, 5, "operator:test")
    assert await ways.balance(account) == (6, 0, 4)
