"""The sweep's schedule: declared in temporal.yaml, applied, and really run by the server."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from infra.db import Database
from infra.settings import Settings
from infra.storage.store import BlobStore
from infra.temporal import courses
from infra.temporal.apply import Difference, apply, differences
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from infra.temporal.courses import Standing
from tests.flows.server import DEPLOYMENT, make_current
from tests.support.eventually import eventually
from tests.support.generations import Ways, request
from workers.orchestration.sweeping import build_sweeper
from workflows.contracts import names, queues
from workflows.contracts.sweep import Kind, SweepOrder, SweepReport
from workflows.definitions.sweep import SweepWorkflow

Configured = Callable[..., Settings]


def each_second(file: dict[str, Any]) -> None:
    file["schedules"]["sweep"]["every_s"] = 1


@contextlib.asynccontextmanager
async def sweeping(client: Client, database: Database, folder: Path) -> AsyncIterator[None]:
    """The workflow and its steps, as the orchestrator has them."""
    store = BlobStore.from_settings(Settings(home=folder, signing_secret=SecretStr("s"), api_port=1))
    async with (
        Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[SweepWorkflow], deployment_config=DEPLOYMENT),
        build_sweeper(client, database, store),
    ):
        await make_current(client)
        yield


async def test_the_schedule_is_made_changed_and_its_pause_is_told(configured: Configured) -> None:
    settings = configured()
    client = await connect(settings)
    assert "schedule sweep" in {one.what for one in await differences(client, read_configuration(settings))}
    await apply(client, read_configuration(settings))
    assert await differences(client, read_configuration(settings)) == []

    often = read_configuration(configured(each_second))
    changed = Difference(
        "schedule sweep", "Sweep every 120 s, missed ones within 60 s", "Sweep every 1 s, missed ones within 60 s"
    )
    assert await differences(client, often) == [changed]
    assert await apply(client, often) == [changed]
    assert await differences(client, often) == []

    await client.get_schedule_handle("sweep").pause(note="by hand")
    (paused,) = await differences(client, often)
    assert paused.server == "Sweep every 1 s, missed ones within 60 s, paused"
    await apply(client, often)
    assert await differences(client, often) == []


async def test_the_schedule_runs_and_mends_and_tells(
    configured: Configured, database: Database, ways: Ways, tmp_path: Path
) -> None:
    settings = configured(each_second)
    client = await connect(settings)
    asked = request(await ways.account())
    await ways.admit(asked, in_flight_max=1)
    await apply(client, read_configuration(settings))

    async def runs() -> list[str]:
        query = f"WorkflowType = '{names.SWEEP_WORKFLOW}' AND ExecutionStatus = 'Completed'"
        return [execution.id async for execution in client.list_workflows(query)]

    async with sweeping(client, database, tmp_path):
        (first, *_) = await eventually(runs, what="a scheduled sweep to end")
        assert first.startswith("sweep")
        # By hand, as the admin surface does it: nothing is too young.
        report = await by_hand(client, SweepOrder(young_s=0, actor="operator:ana"))
        assert [(each.kind, each.subject) for each in report.findings] == [
            (Kind.ROW_WITHOUT_WORKFLOW, asked.task_id)
        ]
        assert set(report.looked_at) == {"courses", "workflows", "lots", "store"}
    assert (await courses.look(client, asked.task_id)).standing is Standing.OPEN


async def by_hand(client: Client, order: SweepOrder) -> SweepReport:
    handle: WorkflowHandle[Any, SweepReport] = await client.start_workflow(
        names.SWEEP_WORKFLOW, order, id=names.SWEEP_ID, task_queue=queues.ORCHESTRATOR, result_type=SweepReport
    )
    return await handle.result()


async def test_a_step_that_cannot_be_done_keeps_no_other_from_being_done(
    client: Client, database: Database, ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise RuntimeError("the store is away")

    monkeypatch.setattr("infra.sweep.sweep_store", away)
    async with sweeping(client, database, tmp_path):
        report = await by_hand(client, SweepOrder(dry_run=True))
    assert set(report.looked_at) == {"courses", "workflows", "lots"}
    assert report.put_off.keys() == {"store"}
    assert "away" in report.put_off["store"]
