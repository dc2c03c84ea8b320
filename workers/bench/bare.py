"""The bare side of the comparison: what Temporal costs when nothing is done with it.

It stands here and not in `workflows/`, since no generation ever runs it: it is measuring equipment, on task
queues of its own, in the namespace and on the server of the platform.
"""

import time
from datetime import timedelta
from enum import StrEnum

from temporalio import activity, workflow

ANSWER_ONLY = "answer"
"""Kind of workflow that answers its update and ends."""
ONE_STEP = "step"
"""Kind that does one local activity, answers, and has one step done by another process."""
HELD = "held"
_LIMIT = timedelta(seconds=10)


class Setting(StrEnum):
    """How the bare side's workers are set up."""

    STOCK = "stock"
    """As the SDK comes."""
    ALIKE = "alike"
    """As the platform's own."""


def flow_queue(setting: Setting) -> str:
    """Where workflows of this setting run."""
    return f"bench.{setting.value}.flow"


def step_queue(setting: Setting) -> str:
    """Where their step runs."""
    return f"bench.{setting.value}.step"


@activity.defn(name="bench_hold")
async def hold() -> None:
    """Nothing, locally."""


@activity.defn(name="bench_step")
async def step() -> float:
    """When it began, in unix seconds."""
    return time.time()


@workflow.defn(name="BenchBare")
class Bare:
    """Answers an update; does its one step when it is of that kind. Returns when the step began, else 0."""

    @workflow.init
    def __init__(self, kind: str, setting: str) -> None:
        """Ready to answer at once when there is nothing to do first."""
        self._held = kind == ANSWER_ONLY
        self._step_queue = step_queue(Setting(setting))

    @workflow.run
    async def run(self, kind: str, setting: str) -> float:
        """The course."""
        del setting
        began = 0.0
        if kind == ONE_STEP:
            await workflow.execute_local_activity(hold, start_to_close_timeout=_LIMIT)
            self._held = True
            began = await workflow.execute_activity(
                step, task_queue=self._step_queue, start_to_close_timeout=_LIMIT
            )
        await workflow.wait_condition(workflow.all_handlers_finished)
        return began

    @workflow.update
    async def admit(self) -> str:
        """Answer once held."""
        await workflow.wait_condition(lambda: self._held)
        return HELD
