"""Versions: promoted once their worker is there; what an older one began can be moved."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import VersioningBehavior
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkerDeploymentVersion

from infra.temporal import deployment
from tests.support.eventually import eventually
from workflows.contracts import names, queues

PATIENCE = timedelta(seconds=60)
CARD = "card.of-the-test"


@workflow.defn(name=names.GENERATION_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED, sandboxed=False)
class Waiting:
    """Waits to be told, then has a step done on a queue whose workers know no versions, as a card's do."""

    def __init__(self) -> None:
        self._go = False

    @workflow.signal
    def go(self) -> None:
        self._go = True

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self._go)
        return await workflow.execute_activity(
            step, task_queue=CARD, schedule_to_close_timeout=timedelta(seconds=60)
        )


@activity.defn
async def step() -> str:
    return "done"


def orchestrator(client: Client, build: str) -> Worker:
    version = WorkerDeploymentVersion(deployment_name=queues.DEPLOYMENT, build_id=build)
    return Worker(
        client,
        task_queue=queues.ORCHESTRATOR,
        workflows=[Waiting],
        deployment_config=WorkerDeploymentConfig(version=version, use_worker_versioning=True),
    )


async def started(client: Client) -> str:
    handle = await client.start_workflow(
        names.GENERATION_WORKFLOW, id=f"gen_{uuid.uuid4().hex}", task_queue=queues.ORCHESTRATOR
    )
    return handle.id


async def is_pinned_to(client: Client, workflow_id: str, build: str) -> bool:
    description = await client.get_workflow_handle(workflow_id).describe()
    info = description.raw_description.workflow_execution_info.versioning_info
    return info.deployment_version.build_id == build


async def test_promotion_waits_for_a_worker_of_the_version(client: Client) -> None:
    assert await deployment.current_version(client) is None
    promoting = asyncio.create_task(deployment.promote(client, "a", patience=PATIENCE))
    async with orchestrator(client, "a"):
        await promoting
        assert await deployment.current_version(client) == "a"
        await deployment.promote(client, "a", patience=PATIENCE)


async def test_a_current_version_is_waited_for_as_well(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the version is current before anybody polls; nobody may be told then that all is up."""
    assert not await deployment.is_polled(client, "a")
    async with orchestrator(client, "a"):
        await deployment.promote(client, "a", patience=PATIENCE)
        assert await deployment.is_polled(client, "a")
        assert not await deployment.is_polled(client, "b")
    monkeypatch.setattr(deployment, "_POLL_LASTS", timedelta(0))  # else the server remembers it for a minute
    with pytest.raises(TimeoutError):
        await deployment.promote(client, "a", patience=timedelta(milliseconds=300))


async def test_a_version_without_workers_is_not_promoted(client: Client) -> None:
    with pytest.raises(TimeoutError):
        await deployment.promote(client, "nobody", patience=timedelta(milliseconds=300))
    assert await deployment.current_version(client) is None


async def test_what_an_older_build_began_goes_on_under_a_new_one_when_moved(client: Client) -> None:
    async with orchestrator(client, "old"):
        await deployment.promote(client, "old", patience=PATIENCE)
        begun = await started(client)
        await eventually(lambda: is_pinned_to(client, begun, "old"), what="the first task")
        await eventually(lambda: deployment.stranded(client, "new"), what="visibility to show it")
    async with (
        orchestrator(client, "new"),
        Worker(client, task_queue=CARD, activities=[step]),
    ):
        await deployment.promote(client, "new", patience=PATIENCE)
        assert await deployment.stranded(client, "new") == [begun]
        assert await deployment.move(client, begun, "new")
        handle = client.get_workflow_handle(begun)
        await handle.signal(Waiting.go)
        assert await handle.result() == "done"
        assert await deployment.stranded(client, "new") == []
        assert not await deployment.move(client, begun, "new"), "it is over"


async def test_what_was_begun_before_any_promotion_goes_on_after_it(client: Client) -> None:
    begun = await started(client)
    async with (
        orchestrator(client, "first"),
        Worker(client, task_queue=CARD, activities=[step]),
    ):
        await deployment.promote(client, "first", patience=PATIENCE)
        handle = client.get_workflow_handle(begun)
        await handle.signal(Waiting.go)
        assert await handle.result() == "done"


def test_equal_code_is_one_build() -> None:
    assert deployment.build_id() == deployment.build_id()
    assert len(deployment.build_id()) == deployment.BUILD_ID_CHARS
