"""Receipts of tasks, and the public keys to check them by."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.auth.caller import Authenticated
from api.canvas import PREFIX
from api.core import receipts
from api.deadlines import READ, answer_within
from api.parts import parts_of
from infra.receipts import key_file, public_keys

_READ = ["GET", "HEAD"]

router = APIRouter(prefix=PREFIX)


@router.api_route("/images/tasks/{task_id}/receipt", methods=_READ)
async def fetch(request: Request, caller: Authenticated, task_id: str) -> Response:
    """The signed receipt of a task that is over."""
    return await receipts.serve(parts_of(request), caller, task_id)


@router.api_route("/receipts/keys", methods=_READ)
async def keys(request: Request) -> Response:
    """All public keys that ever signed; for anybody, since whoever is shown a receipt is to check it."""
    parts = parts_of(request)
    async with answer_within(READ), parts.database.read() as reader:
        found = await public_keys(reader, parts.signer)
    return JSONResponse(key_file(found), headers={"Cache-Control": "no-cache"})
