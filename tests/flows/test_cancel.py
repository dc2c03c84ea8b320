"""A cancel is a conversation, and each way of asking is the same one."""

import asyncio
import subprocess

import pytest
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus

from infra.temporal import generations
from tests.flows.server import TEMPORAL
from tests.flows.world import Script, World, finished, runs_until_told
from tests.support.eventually import eventually
from workflows.contracts import names
from workflows.contracts.generation import CancelReply, CancelRequest, RunOrder, RunOutcome
from workflows.contracts.states import CancelAnswer, CreditStatus, Phase, Status

ASK = CancelRequest(reason="changed my mind", actor="member-1")


async def running(world: World, script: Script) -> None:
    await world.admit_it(script)
    await eventually(lambda: script.orders, what="the run to begin")


async def test_while_waiting_it_is_canceled_at_once(world: World) -> None:
    script = world.script(at_once=False)
    await world.admit_it(script)
    reply = await generations.request_cancel(world.client, script.request.task_id, ASK)
    result = await world.handle(script).result()
    assert reply == CancelReply(
        task_id=script.request.task_id, answer=CancelAnswer.CANCELED, credit_status=CreditStatus.RELEASED
    )
    assert result.status is Status.CANCELED
    assert script.count("release canceled by member-1") == 1
    script.check_money(settled=0)


async def test_while_running_only_the_engines_word_releases(world: World) -> None:
    script = world.script(run=runs_until_told)
    async with world.host(script):
        await running(world, script)
        reply = await generations.request_cancel(world.client, script.request.task_id, ASK)
        result = await world.handle(script).result()
    assert reply.answer is CancelAnswer.CANCELED
    assert result.status is Status.CANCELED
    assert script.log.index("engine stopped") < script.log.index("release canceled by member-1")
    script.check_money(settled=0)


async def test_an_engine_that_goes_on_gets_the_answer_requested_and_finishes(world: World) -> None:
    async def deaf(script: Script, _order: RunOrder) -> RunOutcome:
        while not script.finish.is_set():
            activity.heartbeat()
            try:
                await asyncio.sleep(0.05)  # the engine's own pace
            except asyncio.CancelledError:
                script.log.append("not listening")
        return finished()

    script = world.script(run=deaf)
    async with world.host(script):
        await running(world, script)
        reply = await generations.request_cancel(world.client, script.request.task_id, ASK)
        assert (reply.answer, reply.credit_status) == (CancelAnswer.CANCEL_REQUESTED, CreditStatus.HELD)
        assert script.released == 0
        script.finish.set()
        result = await world.handle(script).result()
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


async def test_an_engine_that_cannot_stop_says_so(world: World) -> None:
    script = world.script(cancellable=False, run=runs_until_told)
    async with world.host(script):
        await running(world, script)
        reply = await generations.request_cancel(world.client, script.request.task_id, ASK)
        script.finish.set()
        result = await world.handle(script).result()
    assert reply.answer is CancelAnswer.NOT_SUPPORTED
    assert result.status is Status.COMPLETED
    assert script.count("engine stopped") == 0
    script.check_money(settled=5)


async def test_after_the_end_there_is_nothing_to_cancel(world: World) -> None:
    script = world.script()
    async with world.host(script):
        await world.admit_it(script)
        await world.handle(script).result()
    with pytest.raises(generations.NoOpenCourse):
        await generations.request_cancel(world.client, script.request.task_id, ASK)
    script.check_money(settled=5)


async def test_during_the_hold_it_waits_for_the_hold_and_releases_it(world: World) -> None:
    script = world.script()
    script.hold_gate.clear()
    admission = asyncio.create_task(world.admit_it(script))
    await eventually(lambda: script.count("admit"), what="the hold to begin")
    await world.handle(script).signal(names.CANCEL_SIGNAL, ASK)
    script.hold_gate.set()
    result = await world.handle(script).result()
    assert (await admission).credit_status is CreditStatus.HELD
    assert result.status is Status.CANCELED
    assert script.count("run") == 0
    script.check_money(settled=0)


@pytest.mark.parametrize("moment", ["hold", "waiting", "running"])
async def test_temporals_own_cancel_is_the_same_conversation(world: World, moment: str) -> None:
    script = world.script(at_once=moment == "running", run=runs_until_told)
    if moment == "hold":
        script.hold_gate.clear()
    async with world.host(script):
        admission = asyncio.create_task(world.admit_it(script))
        if moment == "hold":
            await eventually(lambda: script.count("admit"), what="the hold to begin")
        else:
            await admission
        if moment == "running":
            await eventually(lambda: script.orders, what="the run to begin")
        await world.handle(script).cancel()
        await world.handle(script).cancel()
        script.hold_gate.set()
        result = await world.handle(script).result()
    await admission
    assert result.status is Status.CANCELED
    assert (await world.handle(script).describe()).status is WorkflowExecutionStatus.COMPLETED
    script.check_money(settled=0)


async def test_after_the_run_a_cancel_is_too_late(world: World) -> None:
    script = world.script(run=runs_until_told)
    script.inspect_gate.clear()
    async with world.host(script):
        await running(world, script)
        script.finish.set()
        await eventually(lambda: script.count("advance inspecting"), what="the inspection to begin")
        reply = await generations.request_cancel(world.client, script.request.task_id, ASK)
        await world.handle(script).cancel()
        script.inspect_gate.set()
        result = await world.handle(script).result()
    assert reply.answer is CancelAnswer.NOT_CANCELLABLE
    assert result.status is Status.COMPLETED
    script.check_money(settled=5)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "no reason given"),
        (["--input", '"maintenance"'], "maintenance"),
        (["--input", '{"reason": "maintenance"}'], "maintenance"),
        (["--input", "42"], "42"),
    ],
    ids=["nothing", "a string", "an object", "a number"],
)
async def test_the_plain_command_line_signal_is_heard(world: World, given: list[str], reason: str) -> None:
    script = world.script(at_once=False)
    await world.admit_it(script)
    command = [
        str(TEMPORAL), "workflow", "signal", "--name", "cancel", "--workflow-id", script.request.task_id,
        "--address", world.client.service_client.config.target_host, "--namespace", world.client.namespace, *given,
    ]  # fmt: skip
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    result = await world.handle(script).result()
    assert result.status is Status.CANCELED
    assert result.failure is not None
    assert result.failure.message == f"Canceled: {reason}"
    script.check_money(settled=0)


async def test_the_view_shows_who_asked(world: World) -> None:
    script = world.script(run=runs_until_told, cancellable=True)

    async with world.host(script):
        await running(world, script)
        assert (await world.view(script)).phase is Phase.RUNNING
        await world.handle(script).signal(names.CANCEL_SIGNAL, ASK)
        await eventually(lambda: script.count("engine stopped"), what="the engine to be told")
        assert (await world.handle(script).result()).status is Status.CANCELED
    assert (await world.view(script)).cancel == ASK
