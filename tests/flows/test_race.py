"""Everybody decides at once about a generation in doubt, through its real workflow: one end, of which all hear."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from infra.temporal import generations
from tests.flows.world import PRICE, Script, World, finished, says
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts.states import CreditStatus, Decision, RunVerdict, Status
from workflows.definitions.generation import GenerationWorkflow

ROUNDS = 12
UNKNOWN = g.RunOutcome(verdict=RunVerdict.UNKNOWN, evidence="the engine is silent")
FAILED = g.RunOutcome(verdict=RunVerdict.FAILED, may_have_run=True, evidence="the engine failed")
SETTLE = g.Resolution(decision=Decision.SETTLE, reason="the picture is there", actor="ana")
RELEASE = g.Resolution(decision=Decision.RELEASE, reason="no such job", actor="ben")
CANCEL = g.CancelRequest(reason="changed my mind", actor="user:ada")


async def _race(world: World, script: Script) -> tuple[object, ...]:
    """Two operators, the user by the API and by a signal, and Temporal's own cancel, in the same moment."""
    task_id, handle = script.request.task_id, world.handle(script)
    return await asyncio.gather(
        generations.resolve(world.client, task_id, SETTLE),
        generations.resolve(world.client, task_id, RELEASE),
        generations.request_cancel(world.client, task_id, CANCEL),
        handle.signal(GenerationWorkflow.cancel, CANCEL),
        handle.cancel(),
        return_exceptions=True,
    )


@pytest.mark.slow
async def test_everybody_decides_at_once_and_the_workflow_ends_once(world: World) -> None:
    ends: Counter[CreditStatus] = Counter()
    for number in range(ROUNDS):
        last = (UNKNOWN, FAILED, finished())[number % 3]  # what the poller says while the others decide
        script = world.script(run=says(UNKNOWN, last), late_for=timedelta(0))
        async with world.host(script):
            await world.admit_it(script)
            await eventually(lambda script=script: script.unknowns, what="the unknown to be shown")  # type: ignore[misc]  # mypy can't infer a default's type
            answers = await _race(world, script)
            result = await world.handle(script).result()
        closings = [answer for answer in answers if isinstance(answer, g.Closing)]
        assert script.closing is not None
        assert {closing.credit_status for closing in closings} <= {script.closing.credit_status}
        assert (result.status, result.credit_status) == (script.closing.status, script.closing.credit_status)
        if result.credit_status is CreditStatus.SETTLED:
            assert result.status is Status.COMPLETED
        elif result.status is Status.COMPLETED:
            assert script.late_ending is not None, "a result that was found after the release is free"
        script.check_money(settled=PRICE if result.credit_status is CreditStatus.SETTLED else 0)
        ends[result.credit_status] += 1
    assert sum(ends.values()) == ROUNDS
