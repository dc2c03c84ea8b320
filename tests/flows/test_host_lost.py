"""A host of several cards is lost: each of its runs is unknown, none failed, and other hosts go on."""

from contextlib import AsyncExitStack
from functools import partial

from temporalio.exceptions import ApplicationError

from tests.flows.world import Script, World, finished
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts.states import CreditStatus, Phase, Status


async def lost_until_told(script: Script, order: g.RunOrder) -> g.RunOutcome:
    """The agent is gone with its run; looks find it once the test says so."""
    if not order.attach_only:
        raise ApplicationError("the agent is gone", non_retryable=True)
    if not script.finish.is_set():
        raise ApplicationError("the agent is still gone", non_retryable=True)
    return finished()


def in_doubt(script: Script) -> bool:
    """Whether it is shown as unknown."""
    return bool(script.unknowns)


async def test_every_run_of_a_lost_host_is_unknown_and_comes_home_with_it(world: World) -> None:
    lost = [world.script(run=lost_until_told) for _ in range(2)]
    elsewhere = world.script()
    async with AsyncExitStack() as cards:
        for script in (*lost, elsewhere):
            await cards.enter_async_context(world.host(script))
        for script in (*lost, elsewhere):
            await world.admit_it(script)
        assert (await world.handle(elsewhere).result()).status is Status.COMPLETED
        for script in lost:
            await eventually(partial(in_doubt, script), what="the doubt")
            view = await world.view(script)
            assert (view.phase, view.credit_status) == (Phase.RECONCILING, CreditStatus.UNKNOWN)
        for script in lost:
            script.finish.set()
        for script in lost:
            assert (await world.handle(script).result()).status is Status.COMPLETED
            assert [order.attach_only for order in script.orders][:1] == [False]
            assert all(order.attach_only for order in script.orders[1:]), "looked at, never run again"
            assert script.count("requeue") == 1, "asked whether it had begun; it had"
            script.check_money(settled=5)
    elsewhere.check_money(settled=5)
