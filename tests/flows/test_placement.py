"""Waiting for a card, being offered one, and losing it before anything ran."""

from datetime import timedelta
from functools import partial

from temporalio.exceptions import ApplicationError

from infra.temporal import generations
from tests.flows.world import Script, World, runs_at_once, says
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import CreditStatus, Phase, RunVerdict, Status

SHORT = g.RunOutcome(
    verdict=RunVerdict.FAILED, failure=Failure(code=Code.OUT_OF_MEMORY, message="The engine ran out of memory.")
)
NEVER_RAN = g.RunOutcome(
    verdict=RunVerdict.FAILED,
    may_have_run=False,
    failure=Failure(code=Code.SERVICE_UNAVAILABLE, message="The journal can't be written."),
)


def _requeued(script: Script, times: int) -> bool:
    return script.count("requeue") == times


async def test_a_waiting_generation_takes_the_card_that_it_is_assigned(world: World) -> None:
    script = world.script(at_once=False)
    async with world.host(script):
        await world.admit_it(script)
        offer = script.card.model_copy(update={"accepted": False})
        await generations.assign(world.client, script.request.task_id, offer)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert script.count("accept") == 1
    script.check_money(settled=5)


async def test_a_lapsed_offer_is_waited_out(world: World) -> None:
    script = world.script(at_once=False, accepts=False)
    async with world.host(script):
        await world.admit_it(script)
        offer = script.card.model_copy(update={"accepted": False})
        await generations.assign(world.client, script.request.task_id, offer)
        await eventually(lambda: script.count("accept"), what="the offer to be looked at")
        assert (await world.view(script)).phase is Phase.WAITING
        script.accepts = True
        await generations.assign(world.client, script.request.task_id, offer)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert script.count("run") == 1


async def test_an_assignment_that_comes_twice_runs_once(world: World) -> None:
    script = world.script(at_once=False)
    async with world.host(script):
        await world.admit_it(script)
        offer = script.card.model_copy(update={"accepted": False})
        for _ in range(3):
            await generations.assign(world.client, script.request.task_id, offer)
        await world.handle(script).result()
    assert script.count("run") == 1
    script.check_money(settled=5)


async def test_a_deadline_ends_the_wait_released(world: World) -> None:
    script = world.script(at_once=False, waits=timedelta(seconds=1))
    await world.admit_it(script)
    result = await world.handle(script).result()
    assert (result.status, result.credit_status) == (Status.EXPIRED, CreditStatus.RELEASED)
    script.check_money(settled=0)


async def test_a_host_that_proves_that_nothing_ran_costs_only_time(world: World) -> None:
    script = world.script()
    script.run = says(NEVER_RAN)
    async with world.host(script):
        await world.admit_it(script)
        await eventually(lambda: script.count("requeue"), what="the generation to wait again")
        script.run = runs_at_once
        await generations.assign(world.client, script.request.task_id, script.card.model_copy(update={"fence": 2}))
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.fence for order in script.orders] == [1, 2]
    script.check_money(settled=5)


async def test_memory_that_is_not_enough_costs_one_more_card_and_then_the_generation(world: World) -> None:
    script = world.script()
    script.run = says(SHORT)
    async with world.host(script):
        await world.admit_it(script)
        await eventually(partial(_requeued, script, 1), what="the generation to wait again")
        other = script.card.model_copy(update={"lease_id": "another", "fence": 2})
        await generations.assign(world.client, script.request.task_id, other)
        result = await world.handle(script).result()
    assert (result.status, len(script.orders), script.count("requeue")) == (Status.FAILED, 2, 1)
    assert result.failure is not None
    assert result.failure.code is Code.OUT_OF_MEMORY
    script.check_money(settled=0)


async def test_memory_that_is_enough_on_the_next_card_delivers(world: World) -> None:
    script = world.script()
    script.run = says(SHORT)
    async with world.host(script):
        await world.admit_it(script)
        await eventually(partial(_requeued, script, 1), what="the generation to wait again")
        script.run = runs_at_once
        other = script.card.model_copy(update={"lease_id": "another", "fence": 2})
        await generations.assign(world.client, script.request.task_id, other)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


async def test_a_host_that_is_away_before_the_order_gives_the_generation_back(world: World) -> None:
    """The agent fails before it fetched anything: the transaction finds the proof, another card takes it."""

    async def dies(_script: object, _order: object) -> g.RunOutcome:
        raise ApplicationError("no endpoint", non_retryable=True)

    script = world.script(fetched=False)
    script.run = dies
    async with world.host(script):
        await world.admit_it(script)
        await eventually(lambda: script.count("requeue"), what="the generation to wait again")
        script.run = runs_at_once
        await generations.assign(world.client, script.request.task_id, script.card)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


async def test_a_request_that_every_host_refuses_is_given_back(world: World) -> None:
    script = world.script()
    script.run = says(NEVER_RAN)
    async with world.host(script):
        await world.admit_it(script)
        for fence in range(2, 5):
            await eventually(partial(_requeued, script, fence - 1), what="the next wait")
            await generations.assign(
                world.client, script.request.task_id, script.card.model_copy(update={"fence": fence})
            )
        result = await world.handle(script).result()
    assert (result.status, len(script.orders)) == (Status.FAILED, 4)
    script.check_money(settled=0)


async def test_a_waiting_generation_holds_no_worker_slot(world: World) -> None:
    """More generations wait than the worker has slots of any kind, and one more is still served."""
    waiting = [world.script(at_once=False, waits=timedelta(minutes=5)) for _ in range(40)]
    for script in waiting:
        await world.admit_it(script)
    one_more = world.script()
    async with world.host(one_more):
        await world.admit_it(one_more)
        assert (await world.handle(one_more).result()).status is Status.COMPLETED
    history = await world.handle(waiting[0]).fetch_history()
    pending = (await world.handle(waiting[0]).describe()).raw_description.pending_activities
    assert not pending
    assert len(history.events) < 15
    for script in waiting:
        await world.handle(script).terminate("the test is over")
