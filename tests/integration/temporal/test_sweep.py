"""Holds without a workflow and workflows without a hold, on a real Postgres and a real Temporal server."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import Worker

from infra import generations as records
from infra.db import Database
from infra.temporal import courses, generations
from infra.temporal.courses import Standing
from tests.support.eventually import eventually
from tests.support.generations import Ways, request
from workers import sweep as sweeping
from workers.sweep import Swept
from workflows.contracts import names, queues
from workflows.contracts.generation import CancelRequest, GenerationRequest

NOW = timedelta(0)


@workflow.defn(name=names.GENERATION_WORKFLOW, sandboxed=False)
class Over:
    """Completes at once, whatever was asked."""

    @workflow.run
    async def run(self, _request: Any) -> None:
        return


async def sweep(database: Database, client: Client, older_than: timedelta = NOW) -> Swept:
    return await sweeping.sweep(database, client, older_than=older_than)


async def held(ways: Ways) -> GenerationRequest:
    asked = request(await ways.account())
    await ways.admit(asked)
    return asked


async def first_event(client: Client, task_id: str) -> Any:
    events = [event async for event in client.get_workflow_handle(task_id).fetch_history_events()]
    return events[0].workflow_execution_started_event_attributes


async def test_a_hold_whose_workflow_is_lost_is_taken_up_with_its_own_request(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    assert await courses.standing(client, asked.task_id) is Standing.ABSENT
    assert await sweep(database, client) == Swept(looked_at=1, resumed=(asked.task_id,))
    assert await courses.standing(client, asked.task_id) is Standing.OPEN
    started = await first_event(client, asked.task_id)
    (again,) = await client.data_converter.decode(started.input.payloads, [GenerationRequest])
    assert again == asked
    assert await sweep(database, client) == Swept(looked_at=1)


async def test_a_terminated_workflow_is_taken_up_again(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    await generations.resume(client, asked)
    assert await courses.terminate(client, asked.task_id, "an operator's mistake")
    assert await courses.standing(client, asked.task_id) is Standing.BROKEN_OFF
    assert (await sweep(database, client)).resumed == (asked.task_id,)
    assert await courses.standing(client, asked.task_id) is Standing.OPEN


async def test_a_cancel_that_was_recorded_is_not_forgotten(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    cancel = CancelRequest(reason="changed my mind", actor="ana")
    async with database.transaction() as tx:
        await records.request_cancel(tx, asked.task_id, cancel)
    await sweep(database, client)
    events = [event async for event in client.get_workflow_handle(asked.task_id).fetch_history_events()]
    (signal,) = [
        event.workflow_execution_signaled_event_attributes
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]
    assert signal.signal_name == names.CANCEL_SIGNAL
    assert await client.data_converter.decode(signal.input.payloads, [CancelRequest]) == [cancel]


async def test_a_workflow_that_completed_over_an_open_hold_is_shown_and_not_repeated(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    async with Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[Over]):
        await generations.resume(client, asked)
        await client.get_workflow_handle(asked.task_id).result()
    assert await sweep(database, client) == Swept(looked_at=1, contradictions=(asked.task_id,))
    assert await courses.standing(client, asked.task_id) is Standing.COMPLETED


async def test_one_that_ends_under_our_eyes_is_no_contradiction(
    ways: Ways, database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await held(ways)

    async def ends_now(_client: Client, task_id: str) -> Standing:
        await ways.release(task_id)
        return Standing.COMPLETED

    monkeypatch.setattr(courses, "standing", ends_now)
    assert await sweep(database, client) == Swept(looked_at=1)


async def test_one_that_ended_in_both_is_nobodys_business(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    async with Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[Over]):
        await generations.resume(client, asked)
        await client.get_workflow_handle(asked.task_id).result()
    await ways.release(asked.task_id)
    assert await sweep(database, client) == Swept()


async def test_a_workflow_that_holds_nothing_is_ended_and_says_why(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = request("nobody")
    await generations.resume(client, asked)
    kept = await held(ways)
    await generations.resume(client, kept)

    async def swept() -> tuple[str, ...]:
        return (await sweep(database, client)).terminated

    assert await eventually(swept, what="visibility to show it") == (asked.task_id,)
    events = [event async for event in client.get_workflow_handle(asked.task_id).fetch_history_events()]
    assert "nothing was held" in events[-1].workflow_execution_terminated_event_attributes.reason
    assert await courses.standing(client, kept.task_id) is Standing.OPEN


async def test_the_young_are_left_alone(ways: Ways, database: Database, client: Client) -> None:
    await held(ways)
    stray = request("nobody")
    await generations.resume(client, stray)

    async def visible() -> bool:
        return stray.task_id in [task_id async for task_id in courses.open_courses(client, older_than=NOW)]

    await eventually(visible, what="visibility to show it")
    assert await sweep(database, client, older_than=timedelta(hours=1)) == Swept()


async def test_many_are_swept_in_batches(
    ways: Ways, database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH", 2)
    asked = [await held(ways) for _ in range(5)]
    found = await sweep(database, client)
    assert found.looked_at == len(asked)
    assert found.resumed == tuple(each.task_id for each in asked)
