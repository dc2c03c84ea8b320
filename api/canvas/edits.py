"""Creating image edits, waiting for them or not."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api import errors, present
from api.canvas import PREFIX
from api.core import content, tasks
from api.core.arrival import Arrival, arrive
from api.core.creation import create
from api.core.draft import draft
from api.errors import ApiError, refuse
from api.parts import Parts, parts_of
from api.uploads.multipart import FRAMING_BYTES, Limits, read_form
from infra.db import DatabaseAway
from infra.generations import GenerationRecord
from workflows.contracts.failures import Code


async def edit_task(request: Request) -> Response:
    """Create; the answer is the task."""
    arrival = await arrive(request)
    record = await _create(request, arrival)
    asked_as = arrival.operation_id
    answer = present.accepted(record) | present.duplicate(record, asked_as)
    return JSONResponse(answer, status_code=202, headers=present.headers(record, asked_as=asked_as))


async def edit(request: Request) -> Response:
    """Create and wait; the answer is the picture, or 504 with the ids once the wait budget ends."""
    parts = parts_of(request)
    arrival = await arrive(request)
    record = await tasks.wait(parts, arrival.caller, await _create(request, arrival), request)
    failure = present.failure_of(record)
    if failure is not None:
        raise ApiError(
            failure,
            operation_id=arrival.operation_id,
            task_id=record.task_id,
            credit_status=record.credit_status.value,
        )
    return await content.as_json(parts.store, record, asked_as=arrival.operation_id)


router = APIRouter()
# As plain routes: the body is a stream and the caller comes with what is known of the operation, so that the
# framework's own reading of parameters and dependencies would have nothing to do, in half a millisecond.
router.add_route(f"{PREFIX}/images/edits/tasks", edit_task, methods=["POST"])
router.add_route(f"{PREFIX}/images/edits", edit, methods=["POST"])


async def _create(request: Request, arrival: Arrival) -> GenerationRecord:
    operation = arrival.operation_id
    _refuse_query(request, operation)
    parts = parts_of(request)
    with parts.spool.files() as new_path:
        try:
            form = await read_form(request, new_path, _limits(parts))
            return await create(parts, arrival, draft(parts.catalog, form))
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
