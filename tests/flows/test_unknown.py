"""Where evidence ends: nothing moves by time alone, and evidence or a person decides."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from infra.temporal import generations
from tests.flows.world import Script, World, finished, runs_until_told, says
from tests.support.eventually import eventually
from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import CreditStatus, Decision, Phase, RunVerdict, Status

UNKNOWN = g.RunOutcome(verdict=RunVerdict.UNKNOWN, evidence="the engine is silent")
RELEASE = g.Resolution(decision=Decision.RELEASE, reason="vendor's log shows no job", actor="ana")


async def in_doubt(world: World, script: Script) -> None:
    await world.admit_it(script)
    await eventually(lambda: script.unknowns, what="the unknown to be shown")


async def test_evidence_found_later_is_delivered_and_settled(world: World) -> None:
    script = world.script(run=says(UNKNOWN, finished()))
    async with world.host(script):
        await in_doubt(world, script)
        view = await world.view(script)
        assert (view.phase, view.credit_status) == (Phase.RECONCILING, CreditStatus.UNKNOWN)
        assert view.next_look_at is not None
        assert view.resolve_by is not None
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in script.orders] == [False, True]
    script.check_money(settled=5)
    (looked,) = script.looks
    assert (looked.source, looked.finding, looked.fence) == (e.Source.HOST, e.Finding.FINISHED, script.card.fence)


async def test_a_silent_host_is_unknown_when_the_order_was_fetched(world: World) -> None:
    async def dies(script: Script, order: g.RunOrder) -> g.RunOutcome:
        if order.attach_only:
            return finished()
        raise ApplicationError("the agent is gone", non_retryable=True)

    script = world.script(run=dies)
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert script.log[:4] == ["admit", "run", "requeue", "look"]
    script.check_money(settled=5)


async def test_proof_that_it_never_ran_places_it_again(world: World) -> None:
    never = g.RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, evidence="the journal has no intent")
    script = world.script(run=says(UNKNOWN, never, finished()))
    async with world.host(script):
        await in_doubt(world, script)
        await eventually(lambda: script.count("requeue"), what="the generation to wait again")
        assert (await world.view(script)).phase is Phase.WAITING
        await generations.assign(world.client, script.request.task_id, script.card.model_copy(update={"fence": 2}))
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


@pytest.mark.parametrize("decision", [Decision.RELEASE, Decision.SETTLE])
async def test_an_operator_decides_and_the_act_is_booked_with_the_money(world: World, decision: Decision) -> None:
    script = world.script(run=says(UNKNOWN), late_for=timedelta(0))
    async with world.host(script):
        await in_doubt(world, script)
        resolution = RELEASE.model_copy(update={"decision": decision})
        closing = await generations.resolve(world.client, script.request.task_id, resolution)
        result = await world.handle(script).result()
    settled = decision is Decision.SETTLE
    assert closing.credit_status is (CreditStatus.SETTLED if settled else CreditStatus.RELEASED)
    assert result.credit_status is closing.credit_status
    assert not result.artifacts
    script.check_money(settled=5 if settled else 0)
    (act,) = script.acts
    assert (act.credits, act.reason, act.actor) == (5 if settled else None, RELEASE.reason, "operator:ana")
    decided = [look for look in script.looks if look.source is e.Source.OPERATOR]
    assert [look.said for look in decided] == [f"{decision.value}: {RELEASE.reason}"]


SETTLE = RELEASE.model_copy(update={"decision": Decision.SETTLE})


async def test_a_decision_to_settle_looks_once_more_and_delivers_what_it_finds(world: World) -> None:
    script = world.script(run=says(UNKNOWN, finished()))
    async with world.host(script):
        await in_doubt(world, script)
        closing = await generations.resolve(world.client, script.request.task_id, SETTLE)
        result = await world.handle(script).result()
    assert closing.credit_status is CreditStatus.SETTLED
    assert len(result.artifacts) == 1, "paid, and delivered"
    script.check_money(settled=5)


async def test_a_decision_to_settle_never_stops_a_run_that_a_look_follows(world: World) -> None:
    async def goes_on(script: Script, order: g.RunOrder) -> g.RunOutcome:
        return await runs_until_told(script, order) if order.attach_only else UNKNOWN

    script = world.script(run=goes_on)
    async with world.host(script):
        await in_doubt(world, script)
        await eventually(lambda: script.count("look"), what="a look to follow the run")
        deciding = asyncio.create_task(generations.resolve(world.client, script.request.task_id, SETTLE))

        async def decided() -> bool:
            history = await world.handle(script).fetch_history()
            return any(
                event.HasField("workflow_execution_update_accepted_event_attributes") and "resolve" in str(event)
                for event in history.events
            )

        await eventually(decided, what="the decision to be taken up")
        script.finish.set()
        await deciding
        result = await world.handle(script).result()
    assert "engine stopped" not in script.log
    assert (result.status, len(result.artifacts)) == (Status.COMPLETED, 1)
    script.check_money(settled=5)


async def test_a_decision_needs_an_unknown_and_a_reason(world: World) -> None:
    script = world.script(at_once=False, run=says(UNKNOWN))
    async with world.host(script):
        await world.admit_it(script)
        with pytest.raises(WorkflowUpdateFailedError):
            await generations.resolve(world.client, script.request.task_id, RELEASE)
        await generations.assign(world.client, script.request.task_id, script.card)
        await eventually(lambda: script.unknowns, what="the unknown to be shown")
        with pytest.raises(WorkflowUpdateFailedError):
            await generations.resolve(
                world.client, script.request.task_id, RELEASE.model_copy(update={"reason": "  "})
            )
        assert script.released == 0
        await generations.resolve(world.client, script.request.task_id, RELEASE)
    script.check_money(settled=0)


async def test_at_its_date_it_is_raised_and_still_held(world: World) -> None:
    script = world.script(run=says(UNKNOWN), resolve_by_s=1)
    async with world.host(script):
        await in_doubt(world, script)
        await eventually(lambda: script.unknowns[-1].raised, what="the unknown to be raised")
        assert (script.settled, script.released) == (0, 0)
        assert (await world.view(script)).credit_status is CreditStatus.UNKNOWN
        await generations.resolve(world.client, script.request.task_id, RELEASE)
    script.check_money(settled=0)


async def test_a_manifest_may_opt_into_release(world: World) -> None:
    script = world.script(run=says(UNKNOWN), resolve_by_s=1, release_unknown=True, late_for=timedelta(0))
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert "release outcome_unknown by manifest:release_unknown" in script.log
    assert (result.status, result.credit_status) == (Status.FAILED, CreditStatus.RELEASED)
    assert result.failure is not None
    assert result.failure.code is Code.OUTCOME_UNKNOWN
    script.check_money(settled=0)


async def test_a_cancel_while_unknown_releases_only_on_proof(world: World) -> None:
    async def stops(script: Script, order: g.RunOrder) -> g.RunOutcome:
        if not order.attach_only:
            return UNKNOWN
        return await runs_until_told(script, order)

    script = world.script(run=stops)
    async with world.host(script):
        await in_doubt(world, script)
        reply = await generations.request_cancel(
            world.client, script.request.task_id, g.CancelRequest(reason="enough", actor="member-1")
        )
        assert reply.credit_status is CreditStatus.UNKNOWN
        assert script.released == 0
        result = await world.handle(script).result()
    assert result.status is Status.CANCELED
    assert script.log.index("engine stopped") < script.log.index("release canceled by member-1")
    script.check_money(settled=0)


async def test_a_definite_failure_found_later_is_released(world: World) -> None:
    failed = g.RunOutcome(
        verdict=RunVerdict.FAILED, failure=Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
    )
    script = world.script(run=says(UNKNOWN, failed))
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert result.status is Status.FAILED
    script.check_money(settled=0)
