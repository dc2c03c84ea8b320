"""A generation whose workflow was lost: it goes on from the lease that stands or stood, and repeats nothing."""

from infra.temporal import generations
from tests.flows.world import Script, World, finished, says
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts.states import RunVerdict, Status

NEVER = g.RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, evidence="the journal has no intent")


def under_an_earlier_lease(world: World, script: Script) -> Script:
    """The admission answers with a lease that is parked or over, as it does for a hold taken long ago."""
    script.card = script.card.model_copy(update={"accepted": False})
    return script


async def test_a_standing_lease_is_run_under_as_if_nothing_had_happened(world: World) -> None:
    script = world.script()
    async with world.host(script):
        await generations.resume(world.client, script.request)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in script.orders] == [False]
    script.check_money(settled=5)


async def test_the_run_of_an_earlier_lease_is_looked_for_and_delivered(world: World) -> None:
    script = under_an_earlier_lease(world, world.script())
    async with world.host(script):
        await generations.resume(world.client, script.request)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in script.orders] == [True], "it was started again"
    assert script.count("accept") == 0
    script.check_money(settled=5)


async def test_proof_that_nothing_ran_under_it_places_it_anew(world: World) -> None:
    script = under_an_earlier_lease(world, world.script(run=says(NEVER, finished())))
    async with world.host(script):
        await generations.resume(world.client, script.request)
        await eventually(lambda: script.count("requeue"), what="the generation to wait again")
        lease = script.card.model_copy(update={"fence": 2, "accepted": True})
        await generations.assign(world.client, script.request.task_id, lease)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in script.orders] == [True, False]
    script.check_money(settled=5)


async def test_a_cancel_of_before_is_carried_out(world: World) -> None:
    script = world.script(at_once=False)
    await generations.resume(world.client, script.request, g.CancelRequest(reason="before", actor="ana"))
    result = await world.handle(script).result()
    assert result.status is Status.CANCELED
    script.check_money(settled=0)


async def test_an_open_course_is_left_as_it_is(world: World) -> None:
    script = world.script(at_once=False)
    await world.admit_it(script)
    before = await world.handle(script).describe()
    await generations.resume(world.client, script.request)
    assert (await world.handle(script).describe()).run_id == before.run_id
    await generations.request_cancel(world.client, script.request.task_id, g.CancelRequest())
