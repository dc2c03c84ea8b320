"""The main way: held, run, judged, kept, settled; and the ways on which nothing is delivered."""

import asyncio

from temporalio.client import WorkflowExecutionStatus

from tests.flows.world import World, says
from workflows.contracts import generation as g
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import AdmissionOutcome, CreditStatus, RunVerdict, Status


async def test_a_finished_run_is_delivered_and_settled(world: World) -> None:
    script = world.script()
    async with world.host(script):
        admission = await world.admit_it(script)
        result = await world.handle(script).result()
    assert admission.outcome is AdmissionOutcome.HELD
    assert result.status is Status.COMPLETED
    assert result.credit_status is CreditStatus.SETTLED
    assert [artifact.index for artifact in result.artifacts] == [0]
    assert script.log == ["admit", "run", "advance inspecting", "keep", "settle"]
    script.check_money(settled=5)


async def test_a_failed_run_is_released(world: World) -> None:
    failure = Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
    script = world.script(run=says(g.RunOutcome(verdict=RunVerdict.FAILED, failure=failure)))
    async with world.host(script):
        await world.admit_it(script)
        result = await world.handle(script).result()
    assert (result.status, result.failure) == (Status.FAILED, failure)
    assert not result.artifacts
    script.check_money(settled=0)


async def test_a_result_that_breaks_its_contract_is_not_paid(world: World) -> None:
    failure = Failure(code=Code.MEDIA_VALIDATION_FAILED, message="The picture is 64 x 63.")
    script = world.script(inspection=failure)
    async with world.host(script):
        await world.admit_it(script)
        result = await world.handle(script).result()
    assert (result.status, result.failure) == (Status.FAILED, failure)
    assert script.count("keep") == 0
    script.check_money(settled=0)


async def test_sixty_four_equal_calls_share_one_hold_and_one_run(world: World) -> None:
    script = world.script()
    async with world.host(script):
        answers = await asyncio.gather(*(world.admit_it(script) for _ in range(64)))
        await world.handle(script).result()
        late = await world.admit_it(script)
    assert {answer.model_dump_json() for answer in (*answers, late)} == {late.model_dump_json()}
    assert (script.count("admit"), script.count("run")) == (1, 1)
    script.check_money(settled=5)


async def test_a_refusal_fails_the_workflow_and_holds_nothing(world: World) -> None:
    script = world.script(refusal=Failure(code=Code.INSUFFICIENT_CREDITS, message="Price 5, available 0."))
    admission = await world.admit_it(script)
    assert admission.refusal == script.refusal
    description = await world.handle(script).describe()
    assert description.status is WorkflowExecutionStatus.FAILED
    assert script.held == 0


async def test_the_same_operation_works_after_a_top_up(world: World) -> None:
    script = world.script(refusal=Failure(code=Code.INSUFFICIENT_CREDITS, message="Price 5, available 0."))
    await world.admit_it(script)
    script.refusal = None
    script.request = script.request.model_copy(update={"attempt": 2})
    async with world.host(script):
        admission = await world.admit_it(script)
        result = await world.handle(script).result()
    assert admission.outcome is AdmissionOutcome.HELD
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)
