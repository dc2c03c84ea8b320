"""A generation whose workflow was lost: the hold is there already, and its run may have begun."""

import pytest
from temporalio.client import WorkflowFailureError

from infra.temporal import generations
from tests.flows.world import World, finished, says
from workflows.contracts.states import Status


async def test_a_run_under_an_earlier_lease_is_looked_for_before_anything_starts(world: World) -> None:
    script = world.script(run=says(finished()))
    script.card = script.card.model_copy(update={"accepted": False})  # how admission names a lease of before
    async with world.host(script):
        await generations.resume(world.client, script.request)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in script.orders] == [True]
    script.check_money(settled=5)


async def test_a_terminated_one_goes_on_where_it_waits(world: World) -> None:
    script = world.script(at_once=False)
    await world.admit_it(script)
    await world.handle(script).terminate("somebody's mistake")
    await generations.resume(world.client, script.request)
    async with world.host(script):
        await generations.assign(world.client, script.request.task_id, script.card)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


async def test_a_workflow_of_another_body_has_no_right_to_the_hold(world: World) -> None:
    """Admission answers with the body that was admitted; this one would price, judge and settle another."""
    script = world.script()
    script.admitted_fingerprint = "e" * 64
    async with world.host(script):
        admission = await world.admit_it(script)
        with pytest.raises(WorkflowFailureError):
            await world.handle(script).result()
    assert admission.fingerprint == "e" * 64
    assert script.log == ["admit"]
