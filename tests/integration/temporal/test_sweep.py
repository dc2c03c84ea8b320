"""Holds without a workflow and workflows without a hold, on a real Postgres and a real Temporal server.

Each kind is first found by a dry run, which changes nothing and records nothing, and then repaired.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import Worker

from infra import generations as records
from infra.db import Database, Query
from infra.sweep import courses as steps
from infra.sweep import sweep_courses, sweep_workflows
from infra.temporal import courses, generations
from infra.temporal.courses import Look, Standing
from tests.support.eventually import eventually
from tests.support.generations import Ways, request
from workflows.contracts import names, queues
from workflows.contracts.generation import CancelRequest, GenerationRequest
from workflows.contracts.states import CreditStatus
from workflows.contracts.sweep import Finding, Kind, SweepOrder, SweepPart

NOW = SweepOrder(young_s=0, actor="test")
DRY = NOW.model_copy(update={"dry_run": True})
TERMINATED = "an operator's mistake"


@workflow.defn(name=names.GENERATION_WORKFLOW, sandboxed=False)
class Over:
    """Completes at once, whatever was asked."""

    @workflow.run
    async def run(self, _request: Any) -> None:
        return


class MoneyStepRefusedError(RuntimeError):
    """As the definitions call it."""


@workflow.defn(name=names.GENERATION_WORKFLOW, sandboxed=False)
class Refused:
    """Fails its task each time, as where the database refuses a step."""

    @workflow.run
    async def run(self, _request: Any) -> None:
        raise MoneyStepRefusedError("settle: HoldExceeded")


async def held(ways: Ways) -> GenerationRequest:
    asked = request(await ways.account())
    await ways.admit(asked)
    return asked


async def first_event(client: Client, task_id: str) -> Any:
    events = [event async for event in client.get_workflow_handle(task_id).fetch_history_events()]
    return events[0].workflow_execution_started_event_attributes


def kinds(part: SweepPart) -> list[tuple[Kind, str, bool]]:
    return [(finding.kind, finding.subject, finding.repaired) for finding in part.findings]


async def look(client: Client, task_id: str) -> Look:
    return await courses.look(client, task_id)


async def recorded(database: Database) -> list[tuple[str, str, str | None]]:
    query = Query("recorded", "select kind, subject, outcome from sweep_finding order by id")
    async with database.read() as reader:
        return [(row["kind"], row["subject"], row["outcome"]) for row in await reader.all(query)]


async def acts(database: Database) -> list[tuple[str, str, str]]:
    query = Query(
        "acts", "select subject, actor, data ->> 'kind' as kind from operator_act where act = 'sweep_repair'"
    )
    async with database.read() as reader:
        return [(row["subject"], row["actor"], row["kind"]) for row in await reader.all(query)]


async def test_a_row_whose_workflow_is_lost_is_taken_up_with_its_own_request(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    found = await sweep_courses(database, client, DRY)
    assert kinds(found) == [(Kind.ROW_WITHOUT_WORKFLOW, asked.task_id, False)]
    assert "10 credits are held" in found.findings[0].detail
    assert (await look(client, asked.task_id)).standing is Standing.ABSENT
    assert await recorded(database) == []

    done = await sweep_courses(database, client, NOW)
    assert (done.looked_at, kinds(done)) == (1, [(Kind.ROW_WITHOUT_WORKFLOW, asked.task_id, True)])
    started = await first_event(client, asked.task_id)
    (again,) = await client.data_converter.decode(started.input.payloads, [GenerationRequest])
    assert again == asked
    assert await sweep_courses(database, client, NOW) == SweepPart(looked_at=1)
    assert await recorded(database) == [("row_without_workflow", asked.task_id, "repaired")]
    assert await acts(database) == [(asked.task_id, "test", "row_without_workflow")]


async def test_a_terminated_workflow_is_taken_up_again(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    await generations.resume(client, asked)
    before = await look(client, asked.task_id)
    assert await courses.terminate(client, asked.task_id, before.run_id, TERMINATED)
    (finding,) = (await sweep_courses(database, client, DRY)).findings
    assert (finding.kind, finding.repaired) == (Kind.HOLD_WITHOUT_OPEN_WORKFLOW, False)
    assert "terminated" in finding.detail
    assert (await look(client, asked.task_id)).standing is Standing.BROKEN_OFF

    assert kinds(await sweep_courses(database, client, NOW)) == [(finding.kind, asked.task_id, True)]
    after = await look(client, asked.task_id)
    assert (after.standing, after.run_id != before.run_id) == (Standing.OPEN, True)


async def test_many_sweeps_at_once_start_a_course_once(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    await asyncio.gather(*(sweep_courses(database, client, NOW) for _ in range(8)))

    async def visible() -> list[str]:
        query = f"WorkflowId = '{asked.task_id}'"
        return [execution.run_id async for execution in client.list_workflows(query)]

    (only,) = await eventually(visible, what="visibility to show it")
    assert (await look(client, asked.task_id)).run_id == only


async def test_a_cancel_that_was_recorded_is_not_forgotten(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    cancel = CancelRequest(reason="changed my mind", actor="ana")
    async with database.transaction() as tx:
        await records.request_cancel(tx, asked.task_id, cancel)
    await sweep_courses(database, client, NOW)
    events = [event async for event in client.get_workflow_handle(asked.task_id).fetch_history_events()]
    (signal,) = [
        event.workflow_execution_signaled_event_attributes
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]
    assert signal.signal_name == names.CANCEL_SIGNAL
    assert await client.data_converter.decode(signal.input.payloads, [CancelRequest]) == [cancel]


async def test_a_workflow_that_completed_over_an_open_hold_is_raised_and_not_repeated(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    async with Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[Over]):
        await generations.resume(client, asked)
        await client.get_workflow_handle(asked.task_id).result()
    expected = [(Kind.ROW_CONTRADICTS_WORKFLOW, asked.task_id, False)]
    assert kinds(await sweep_courses(database, client, DRY)) == expected
    assert (await ways.record(asked)).credit_status is CreditStatus.HELD

    for _ in range(2):
        assert kinds(await sweep_courses(database, client, NOW)) == expected
    record = await ways.record(asked)
    assert (record.credit_status, record.raised) == (CreditStatus.UNKNOWN, True)
    assert (await look(client, asked.task_id)).standing is Standing.COMPLETED
    assert await recorded(database) == [("row_contradicts_workflow", asked.task_id, None)]
    assert await ways.breaches() == []

    await ways.release(asked.task_id)
    assert await sweep_courses(database, client, NOW) == SweepPart()
    assert await recorded(database) == [("row_contradicts_workflow", asked.task_id, "gone")]


async def test_one_that_ends_under_our_eyes_is_no_contradiction(
    ways: Ways, database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await held(ways)

    async def ends_now(_client: Client, task_id: str) -> Look:
        await ways.release(task_id)
        return Look(Standing.COMPLETED)

    monkeypatch.setattr(courses, "look", ends_now)
    assert await sweep_courses(database, client, NOW) == SweepPart(looked_at=1)


async def test_one_that_ends_under_our_eyes_is_not_taken_up(
    ways: Ways, database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await held(ways)

    async def ends_now(_client: Client, task_id: str) -> Look:
        await ways.release(task_id)
        return Look(Standing.ABSENT)

    with monkeypatch.context() as patched:
        patched.setattr(courses, "look", ends_now)
        assert await sweep_courses(database, client, NOW) == SweepPart(looked_at=1)
    assert (await look(client, asked.task_id)).standing is Standing.ABSENT


async def test_a_step_that_the_database_refuses_for_good_is_a_figure(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    async with Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[Refused]):
        await generations.resume(client, asked)

        async def found() -> tuple[Finding, ...]:
            return (await sweep_courses(database, client, NOW)).findings

        (finding,) = await eventually(found, what="the workflow's task to fail again and again")
    assert (finding.kind, finding.subject, finding.repaired) == (Kind.MONEY_STEP_REFUSED, asked.task_id, False)
    assert "HoldExceeded" in finding.detail
    assert (await look(client, asked.task_id)).standing is Standing.OPEN


async def test_one_that_ended_in_both_is_nobodys_business(ways: Ways, database: Database, client: Client) -> None:
    asked = await held(ways)
    async with Worker(client, task_queue=queues.ORCHESTRATOR, workflows=[Over]):
        await generations.resume(client, asked)
        await client.get_workflow_handle(asked.task_id).result()
    await ways.release(asked.task_id)
    assert await sweep_courses(database, client, NOW) == SweepPart()


async def shown(client: Client, task_id: str) -> None:
    """Wait until visibility shows an open workflow."""

    async def visible() -> bool:
        older_than = timedelta(0)
        return task_id in [found async for found, _ in courses.open_courses(client, older_than=older_than)]

    await eventually(visible, what="visibility to show it")


async def test_a_workflow_that_holds_nothing_is_ended_and_says_why(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = request("nobody")
    await generations.resume(client, asked)
    kept = await held(ways)
    await generations.resume(client, kept)
    await shown(client, asked.task_id)
    assert kinds(await sweep_workflows(database, client, DRY)) == [
        (Kind.WORKFLOW_WITHOUT_ROW, asked.task_id, False)
    ]
    assert (await look(client, asked.task_id)).standing is Standing.OPEN

    assert kinds(await sweep_workflows(database, client, NOW)) == [
        (Kind.WORKFLOW_WITHOUT_ROW, asked.task_id, True)
    ]
    events = [event async for event in client.get_workflow_handle(asked.task_id).fetch_history_events()]
    assert "nothing was held" in events[-1].workflow_execution_terminated_event_attributes.reason
    assert (await look(client, kept.task_id)).standing is Standing.OPEN
    assert await acts(database) == [(asked.task_id, "test", "workflow_without_row")]


async def test_a_later_run_of_the_same_id_is_another_try_and_stays(client: Client) -> None:
    asked = request("nobody")
    await generations.resume(client, asked)
    first = await look(client, asked.task_id)
    assert await courses.terminate(client, asked.task_id, first.run_id, TERMINATED)
    await generations.resume(client, asked)
    assert not await courses.terminate(client, asked.task_id, first.run_id, TERMINATED)
    description = await client.get_workflow_handle(asked.task_id).describe()
    assert (description.status, description.run_id != first.run_id) == (WorkflowExecutionStatus.RUNNING, True)


async def long_over(database: Database, task_id: str) -> None:
    """Let a generation have ended an hour ago."""
    query = Query(
        "long_over",
        "update generation set finished_at = clock_timestamp() - interval '1 hour' where task_id = %(task_id)s",
    )
    async with database.transaction() as tx:
        await tx.run(Query("off", "alter table generation disable trigger generation_guard"))
        await tx.run(query, task_id=task_id)
        await tx.run(Query("on", "alter table generation enable trigger generation_guard"))


async def search_late(database: Database, task_id: str) -> None:
    """Let a result be looked for after the release."""
    query = Query(
        "search",
        "insert into late_look (task_id, began_at, until)"
        " values (%(task_id)s, clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 day')",
    )
    async with database.transaction() as tx:
        await tx.run(query, task_id=task_id)


@pytest.mark.parametrize("looks_for_a_late_result", [False, True])
async def test_a_workflow_after_its_end_is_shown_unless_it_looks_for_a_late_result(
    ways: Ways, database: Database, client: Client, *, looks_for_a_late_result: bool
) -> None:
    asked = await held(ways)
    await generations.resume(client, asked)
    await ways.release(asked.task_id)
    await shown(client, asked.task_id)
    assert await sweep_workflows(database, client, NOW) == SweepPart(looked_at=1), "it has just ended"
    await long_over(database, asked.task_id)
    if looks_for_a_late_result:
        await search_late(database, asked.task_id)
    found = kinds(await sweep_workflows(database, client, NOW))
    assert found == ([] if looks_for_a_late_result else [(Kind.WORKFLOW_AFTER_END, asked.task_id, False)])
    assert (await look(client, asked.task_id)).standing is Standing.OPEN


async def test_a_search_for_a_late_result_that_lost_its_workflow_goes_on(
    ways: Ways, database: Database, client: Client
) -> None:
    asked = await held(ways)
    await ways.release(asked.task_id)
    await search_late(database, asked.task_id)
    expected = (Kind.LATE_LOOK_WITHOUT_WORKFLOW, asked.task_id)
    assert kinds(await sweep_courses(database, client, DRY)) == [(*expected, False)]
    assert (await look(client, asked.task_id)).standing is Standing.ABSENT
    assert kinds(await sweep_courses(database, client, NOW)) == [(*expected, True)]
    assert (await look(client, asked.task_id)).standing is Standing.OPEN
    assert await sweep_courses(database, client, NOW) == SweepPart(looked_at=1)


async def test_the_young_are_left_alone(ways: Ways, database: Database, client: Client) -> None:
    await held(ways)
    stray = request("nobody")
    await generations.resume(client, stray)
    await shown(client, stray.task_id)
    later = SweepOrder(young_s=3600)
    assert await sweep_courses(database, client, later) == SweepPart()
    assert await sweep_workflows(database, client, later) == SweepPart()


async def test_many_are_swept_in_batches(
    ways: Ways, database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "BATCH", 2)
    asked = [await held(ways) for _ in range(5)]
    found = await sweep_courses(database, client, NOW)
    assert found.looked_at == len(asked)
    assert [finding.subject for finding in found.findings] == [each.task_id for each in asked]
