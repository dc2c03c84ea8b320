"""Schedules of the server, as `temporal.yaml` says them."""

import asyncio
from datetime import timedelta

from temporalio.client import (
    Client,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
)
from temporalio.client import Schedule as ServerSchedule
from temporalio.service import RPCError, RPCStatusCode

from infra.temporal.configuration import Schedule, TemporalConfiguration
from infra.temporal.differing import Difference
from workflows.contracts import queues, timeouts
from workflows.contracts.sweep import SweepOrder

_DEADLINE = timedelta(seconds=10)
_KNOWN_S = 60.0
_LOOK_S = 0.2


async def differences(client: Client | None, configuration: TemporalConfiguration) -> list[Difference]:
    """Where the server's schedules differ from the file; without a client, as if there were none.

    Raises:
        RPCError: The server did not answer.
    """
    found = []
    for name, wanted in configuration.schedules.items():
        on_server = await _described(client, name) if client is not None else "absent"
        if on_server != _words(wanted):
            found.append(Difference(f"schedule {name}", on_server, _words(wanted)))
    return found


async def apply(client: Client, configuration: TemporalConfiguration, found: list[Difference]) -> None:
    """Make or change the schedules that differ. One that somebody paused runs again: the file says so.

    Raises:
        RPCError: The server did not answer, or refused.
        TimeoutError: A new namespace wasn't known to all of the server in time.
    """
    for name, wanted in configuration.schedules.items():
        if any(difference.what == f"schedule {name}" for difference in found):
            async with asyncio.timeout(_KNOWN_S):
                await _make(client, name, _schedule(name, wanted))


async def _make(client: Client, name: str, schedule: ServerSchedule) -> None:
    while True:
        try:
            await client.create_schedule(name, schedule, rpc_timeout=_DEADLINE)
        except ScheduleAlreadyRunningError:
            await client.get_schedule_handle(name).update(
                lambda _: ScheduleUpdate(schedule=schedule), rpc_timeout=_DEADLINE
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            await asyncio.sleep(_LOOK_S)  # a new namespace is known to the server's parts one after the other
            continue
        return


def _schedule(name: str, wanted: Schedule) -> ServerSchedule:
    return ServerSchedule(
        action=ScheduleActionStartWorkflow(
            wanted.workflow,
            SweepOrder(),
            id=name,  # the server adds the time
            task_queue=queues.ORCHESTRATOR,
            execution_timeout=timeouts.SWEEP_RUN,
            task_timeout=timeouts.WORKFLOW_TASK,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=wanted.every_s))]),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=wanted.catchup_window_s)
        ),
        state=ScheduleState(note="made by `holdfast temporal apply` from temporal.yaml"),
    )


def _words(wanted: Schedule) -> str:
    return f"{wanted.workflow} every {wanted.every_s} s, missed ones within {wanted.catchup_window_s} s"


async def _described(client: Client, name: str) -> str:
    """The server's schedule in the words of the file."""
    try:
        description = await client.get_schedule_handle(name).describe(rpc_timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return "absent"
        raise
    schedule = description.schedule
    action, intervals = schedule.action, schedule.spec.intervals
    if not isinstance(action, ScheduleActionStartWorkflow) or len(intervals) != 1 or schedule.spec.calendars:
        return "something else"
    every = intervals[0].every.total_seconds()
    window = schedule.policy.catchup_window
    missed = window.total_seconds() if window else 0
    words = f"{action.workflow} every {every:g} s, missed ones within {missed:g} s"
    if action.task_queue != queues.ORCHESTRATOR:
        words += f", on {action.task_queue}"
    return words + (", paused" if schedule.state.paused else "")
