"""The activity around a run: beats, cancels of each kind, and an agent that leaves."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.card_desk import CardDesk
from activities.engine import EngineActivities
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.engines.states import RunState
from tests.integration.hosts.conftest import MakeDesk
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi, order
from workflows.contracts.generation import RunOutcome
from workflows.contracts.states import RunVerdict


class Stage:
    """One activity in its environment, and what it beat."""

    def __init__(self, desk: CardDesk) -> None:
        """Prepare."""
        self.environment = ActivityEnvironment()
        self.beats: list[tuple[Any, ...]] = []
        self.environment.on_heartbeat = lambda *details: self.beats.append(details)
        self._desk = desk

    async def begin(self) -> "asyncio.Task[RunOutcome]":
        """Start it; returns once the engine is at work."""
        call: Callable[..., Any] = self.environment.run
        task = asyncio.create_task(call(EngineActivities(self._desk).run_on_card, order()))
        await eventually(lambda: self._desk.running and self._desk.running.fraction > 0, what="progress")
        return task


async def test_it_beats_with_task_and_fraction(make_desk: MakeDesk) -> None:
    stage = Stage(make_desk(Script.SLOW))
    task = await stage.begin()
    outcome = await asyncio.wait_for(task, 20)
    assert outcome.verdict is RunVerdict.FINISHED
    assert len(stage.beats) >= 3
    assert {task_id for task_id, _ in stage.beats} == {"gen_a"}
    fractions = [fraction for _, fraction in stage.beats]
    assert fractions == sorted(fractions)
    assert fractions[-1] < 1


async def test_a_cancel_is_carried_to_the_engine_and_answered_with_what_became_of_it(make_desk: MakeDesk) -> None:
    stage = Stage(make_desk(Script.SLOW))
    task = await stage.begin()
    stage.environment.cancel(ActivityCancellationDetails(cancel_requested=True))
    outcome = await asyncio.wait_for(task, 10)
    assert outcome.verdict is RunVerdict.CANCELED


@pytest.mark.parametrize("details", [{"timed_out": True}, {"not_found": True}])
async def test_a_step_that_ended_elsewhere_leaves_the_run_to_the_next(
    make_desk: MakeDesk, details: dict[str, bool]
) -> None:
    desk = make_desk(Script.SLOW)
    stage = Stage(desk)
    task = await stage.begin()
    stage.environment.cancel(ActivityCancellationDetails(**details))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert (await desk.engine.attach("gen_a-1")).state is RunState.RUNNING
    assert desk.active == set()


async def test_an_agent_that_leaves_hands_the_run_over(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk(Script.SLOW)
    stage = Stage(desk)
    task = await stage.begin()
    stage.environment.worker_shutdown()
    with pytest.raises(ApplicationError) as left:
        await asyncio.wait_for(task, 10)
    assert (left.value.type, left.value.non_retryable) == ("host_away", False)
    assert (await desk.engine.attach("gen_a-1")).state is RunState.RUNNING
    again = Stage(make_desk(engine=_engine(desk)))
    outcome = await asyncio.wait_for(await again.begin(), 20)
    assert outcome.verdict is RunVerdict.FINISHED
    assert (_engine(desk).submitted, len(api.orders)) == (1, 1)


async def test_an_order_for_another_card_is_refused(make_desk: MakeDesk) -> None:
    call: Callable[..., Any] = ActivityEnvironment().run
    with pytest.raises(ApplicationError) as refused:
        await call(EngineActivities(make_desk()).run_on_card, order(card="another"))
    assert refused.value.non_retryable


def _engine(desk: CardDesk) -> FakeEngine:
    assert isinstance(desk.keeper, FakeEngine)
    return desk.keeper
