"""Every recorded history replays on today's code, under the sandbox."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.replay.record import HISTORIES, PATHS
from tests.support.sandbox import STRICT
from workflows.definitions.generation import GenerationWorkflow

CURE = """
The workflow's code no longer takes the course that this history recorded, so a generation that is on its
way would stop in the middle, its credits held. Workflows are pinned to the version that began them, but
`holdfast up` moves open ones to the code it runs, and histories are replayed after every loss of a cache.
Cure: keep the old course for what began on it, `if workflow.patched("what-changed"): …new… else: …old…`, and
record the new one beside it (`python -m tests.replay.record`). Never edit or delete a recorded history.
"""


@pytest.fixture(params=sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> WorkflowHistory:
    path: Path = request.param
    return WorkflowHistory.from_json(path.stem, path.read_text())


async def test_it_replays(recorded: WorkflowHistory) -> None:
    replayer = Replayer(
        workflows=[GenerationWorkflow], workflow_runner=STRICT, data_converter=pydantic_data_converter
    )
    result = await replayer.replay_workflow(recorded, raise_on_replay_failure=False)
    assert result.replay_failure is None, f"{recorded.workflow_id}: {result.replay_failure}\n{CURE}"


async def test_the_sandbox_reaches_the_modules_that_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a clock or chance in them would pass every test here: they must be loaded afresh for each workflow."""
    path = next(iter(sorted(HISTORIES.glob("delivered.json"))))
    monkeypatch.setattr("workflows.domain.lifecycle.after_run", None)
    replayer = Replayer(
        workflows=[GenerationWorkflow], workflow_runner=STRICT, data_converter=pydantic_data_converter
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))


def test_every_path_has_a_history() -> None:
    missing = {path.__name__ for path in PATHS} - {file.stem for file in HISTORIES.glob("*.json")}
    assert not missing, "run `python -m tests.replay.record`"
