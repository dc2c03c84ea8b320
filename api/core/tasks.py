"""Query, cancel and wait for a task, for its own account only."""

import asyncio
import re
import time

from fastapi import Request

from api.auth.caller import Caller
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import Parts
from infra import generations
from infra.db import DatabaseAway
from infra.generations import GenerationRecord
from infra.temporal.generations import NoOpenCourse
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import CancelReply, CancelRequest
from workflows.contracts.states import CancelAnswer, Status

LOOK_S = 0.1
LOOK_S_MAX = 1.0
"""A waiting call looks again after 0.1 s, then ever more rarely: it costs one indexed read a second."""
REASON_CHARS_MAX = 500
_TASK_ID = re.compile(r"[0-9a-z_]{1,64}")
"""Whatever else is asked for was never a task's id, and some of it, as NUL, no database takes."""


async def find(parts: Parts, caller: Caller, task_id: str) -> GenerationRecord:
    """The caller's task.

    Raises:
        ApiError: 404, the same for a task that doesn't exist and for a stranger's.
    """
    record = None
    if _TASK_ID.fullmatch(task_id):
        async with answer_within(READ), parts.database.read() as reader:
            record = await generations.find(reader, account_id=caller.account_id, task_id=task_id)
    if record is None:
        raise refuse(Code.TASK_NOT_FOUND, "No such task.")
    return record


async def cancel(parts: Parts, caller: Caller, task_id: str, reason: str) -> tuple[GenerationRecord, CancelReply]:
    """Ask for a cancel; the record is as it is right after, when the answer is the last word.

    Raises:
        ApiError: 404; 503 when nobody can be asked.
    """
    record = await find(parts, caller, task_id)
    if record.status.is_final:
        return record, _final(record)
    request = CancelRequest(reason=reason, actor=caller.actor)
    try:
        reply = await parts.generations.request_cancel(task_id, request)
    except NoOpenCourse:
        record = await find(parts, caller, task_id)
        if record.status.is_final:
            return record, _final(record)
        # Its workflow was lost or terminated. The sweep takes such a generation up again, and the wish with it.
        async with answer_within(READ), parts.database.single_statement() as tx:
            await generations.request_cancel(tx, task_id, request)
        reply = CancelReply(
            task_id=task_id, answer=CancelAnswer.CANCEL_REQUESTED, credit_status=record.credit_status
        )
    if reply.answer in {CancelAnswer.CANCELED, CancelAnswer.NOT_CANCELLABLE}:
        record = await _look(parts, caller, record)
    return record, reply


async def wait(parts: Parts, caller: Caller, record: GenerationRecord, request: Request) -> GenerationRecord:
    """Wait for the end within the budget of a synchronous call.

    Raises:
        ApiError: 504 with the ids when the budget is over; the task goes on.
    """
    ends_at = time.monotonic() + parts.settings.sync_wait_s
    pause = LOOK_S
    while not record.status.is_final:
        if time.monotonic() + pause > ends_at or await request.is_disconnected():
            raise _still_running(record)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LOOK_S_MAX)
        record = await _look(parts, caller, record)
    return record


async def _look(parts: Parts, caller: Caller, record: GenerationRecord) -> GenerationRecord:
    try:
        return await find(parts, caller, record.task_id)
    except ApiError as error:
        if error.failure.code is not Code.SERVICE_UNAVAILABLE:
            raise
        return record  # a database that restarts must not end a wait whose task goes on
    except DatabaseAway:
        return record


def _still_running(record: GenerationRecord) -> ApiError:
    message = (
        "The task is still running; nothing is lost. Ask for it by its id, or repeat this call with the same "
        "operation id."
    )
    return ApiError(
        Failure(code=Code.GATEWAY_TIMEOUT, message=message),
        operation_id=record.request.operation_id,
        task_id=record.task_id,
        credit_status=record.credit_status.value,
    )


def _final(record: GenerationRecord) -> CancelReply:
    canceled = record.status is Status.CANCELED
    answer = CancelAnswer.CANCELED if canceled else CancelAnswer.NOT_CANCELLABLE
    return CancelReply(task_id=record.task_id, answer=answer, credit_status=record.credit_status)
