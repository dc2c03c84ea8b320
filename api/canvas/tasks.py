"""Living with a task."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from api import present
from api.auth.caller import Authenticated, Creator
from api.bodies import read_json
from api.canvas import PREFIX
from api.core import content, tasks
from api.core.surface import surface_of
from api.errors import refuse
from api.parts import parts_of
from workflows.contracts.failures import Code
from workflows.contracts.generation import CancelRequest

router = APIRouter(prefix=f"{PREFIX}/images/tasks")


@router.post("/{task_id}")
async def query(request: Request, caller: Authenticated, task_id: str) -> Response:
    """Where the task stands."""
    await read_json(request)
    parts = parts_of(request)
    record = await tasks.find(parts, caller, task_id)
    url = f"{parts.settings.public_url}{surface_of(request).prefix}/images/tasks/{record.task_id}/content"
    return JSONResponse(present.generation(record, content_url=url), headers=present.headers(record))


@router.post("/{task_id}/cancel")
async def cancel(request: Request, caller: Creator, task_id: str) -> Response:
    """`{id, status, credits, delivered}`; only `canceled` means that it is, and only then the hold is released."""
    body = await read_json(request)
    reason = body.get("reason", CancelRequest().reason)
    if not isinstance(reason, str) or len(reason) > tasks.REASON_CHARS_MAX:
        message = f"`reason` is text of at most {tasks.REASON_CHARS_MAX} characters."
        raise refuse(Code.INVALID_REQUEST, message, param="reason")
    record, reply = await tasks.cancel(parts_of(request), caller, task_id, reason)
    headers = present.headers(record) | {"x-ic-credit-status": reply.credit_status.value}
    return JSONResponse(present.cancel(record, reply), headers=headers)


@router.api_route("/{task_id}/content", methods=["GET", "HEAD"])
async def fetch(
    request: Request, caller: Authenticated, task_id: str, index: Annotated[int, Query(ge=0, le=1_000)] = 0
) -> Response:
    """A result's bytes."""
    parts = parts_of(request)
    return await content.serve(request, parts.store, await tasks.find(parts, caller, task_id), index)
