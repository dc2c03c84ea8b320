"""Creating image edits, waiting for them or not."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api import errors, present
from api.auth.caller import Caller, Creator
from api.canvas import PREFIX
from api.core import content, tasks
from api.core.creation import create
from api.core.draft import draft
from api.core.operation import operation_id
from api.errors import ApiError, refuse
from api.parts import Parts, parts_of
from api.uploads.multipart import FRAMING_BYTES, Limits, read_form
from infra.db import DatabaseAway
from infra.generations import GenerationRecord
from workflows.contracts.failures import Code

router = APIRouter(prefix=f"{PREFIX}/images")


@router.post("/edits/tasks", status_code=202)
async def edit_task(request: Request, caller: Creator) -> Response:
    """Create; the answer is the task."""
    record = await _create(request, caller)
    return JSONResponse(present.accepted(record), status_code=202, headers=present.headers(record))


@router.post("/edits")
async def edit(request: Request, caller: Creator) -> Response:
    """Create and wait; the answer is the picture, or 504 with the ids once the wait budget ends."""
    parts = parts_of(request)
    record = await tasks.wait(parts, caller, await _create(request, caller), request)
    failure = present.failure_of(record)
    if failure is not None:
        raise ApiError(
            failure,
            operation_id=record.request.operation_id,
            task_id=record.task_id,
            credit_status=record.credit_status.value,
        )
    return await content.as_json(parts.store, record)


async def _create(request: Request, caller: Caller) -> GenerationRecord:
    operation = operation_id(request)
    _refuse_query(request, operation)
    parts = parts_of(request)
    with parts.spool.request() as folder:
        try:
            form = await read_form(request, folder, _limits(parts))
            return await create(parts, caller, operation, draft(parts.catalog, form))
        except DatabaseAway as error:
            away = errors.away("database")
            away.operation_id = operation
            raise away from error
        except ApiError as error:
            error.operation_id = error.operation_id or operation
            raise


def _refuse_query(request: Request, operation: str) -> None:
    """Nothing is dropped silently, also not what came beside the body."""
    name = next(iter(request.query_params), None)
    if name is not None:
        message = f"`{name[:100]}` came in the address; parameters belong into the form."
        raise refuse(Code.INVALID_REQUEST, message, param=name[:100], operation_id=operation)


def _limits(parts: Parts) -> Limits:
    """One file as large as the settings allow, and as many of them as the model that takes the most takes."""
    file_bytes_max = parts.settings.upload_bytes_max
    files = max((entry.manifest.images.count_max for entry in parts.catalog.entries.values()), default=1)
    return Limits(file_bytes_max, files * file_bytes_max + FRAMING_BYTES)
