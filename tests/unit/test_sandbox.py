"""What production's runner answers instead of the SDK is true of our converter; recorded courses replay on it."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.converter import ActivitySerializationContext, WorkflowSerializationContext
from temporalio.worker import Replayer

from infra.settings import Settings
from infra.temporal.connection import connect
from tests.replay.record import HISTORIES
from workers.sandbox import sandbox
from workflows.definitions.generation import GenerationWorkflow


async def test_no_converter_of_ours_reads_a_context() -> None:
    client = await connect(Settings(temporal_address="127.0.0.1:1"), lazy=True)
    converter = client.data_converter
    for context in (
        WorkflowSerializationContext(namespace="n", workflow_id="w"),
        ActivitySerializationContext(
            namespace="n",
            activity_id="a",
            activity_type="t",
            activity_task_queue="q",
            workflow_id="w",
            workflow_type="w",
            is_local=True,
        ),
    ):
        assert converter.with_context(context) is converter, "workers/sandbox.py says that there is no context"
    assert converter.external_storage is None, "workers/sandbox.py says that payloads are stored nowhere else"


@pytest.fixture(params=sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> WorkflowHistory:
    path: Path = request.param
    return WorkflowHistory.from_json(path.stem, path.read_text())


async def test_recorded_courses_replay_as_production_runs_them(recorded: WorkflowHistory) -> None:
    client = await connect(Settings(temporal_address="127.0.0.1:1"), lazy=True)
    replayer = Replayer(
        workflows=[GenerationWorkflow],
        workflow_runner=sandbox("workflows"),
        data_converter=client.data_converter,
    )
    result = await replayer.replay_workflow(recorded, raise_on_replay_failure=False)
    assert result.replay_failure is None
