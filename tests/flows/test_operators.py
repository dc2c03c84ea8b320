"""What an operator asks of a real workflow: where it stands, and a decision that it takes or refuses by name."""

import pytest

from infra.db.errors import NothingToResolve, ReasonMissing
from infra.operators import ServerCourses
from infra.temporal.courses import Standing
from tests.flows.world import World, finished, says
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts.states import CreditStatus, Decision, RunVerdict

UNKNOWN = g.RunOutcome(verdict=RunVerdict.UNKNOWN, evidence="the engine is silent")
RELEASE = g.Resolution(decision=Decision.RELEASE, reason="vendor's log shows no job", actor="ana")


async def test_a_decision_is_taken_with_a_reason_and_only_in_doubt(world: World) -> None:
    courses = ServerCourses(world.client)
    script = world.script(run=says(UNKNOWN))
    task_id = script.request.task_id
    async with world.host(script):
        assert (await courses.look(task_id)).standing is Standing.ABSENT
        await world.admit_it(script)
        await eventually(lambda: script.unknowns, what="the unknown to be shown")
        look = await courses.look(task_id)
        assert (look.standing, look.is_stuck, await courses.fault(task_id, look)) == (Standing.OPEN, False, None)
        with pytest.raises(ReasonMissing):
            await courses.resolve(task_id, RELEASE.model_copy(update={"reason": " "}))
        closing = await courses.resolve(task_id, RELEASE)
    assert closing.credit_status is CreditStatus.RELEASED


async def test_what_is_not_in_doubt_takes_no_decision(world: World) -> None:
    script = world.script(run=says(finished()), at_once=False)
    async with world.host(script):
        await world.admit_it(script)
        with pytest.raises(NothingToResolve):
            await ServerCourses(world.client).resolve(script.request.task_id, RELEASE)
