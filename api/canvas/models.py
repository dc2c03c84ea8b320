"""Discovery."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.auth.caller import Authenticated
from api.canvas import PREFIX
from api.core import models
from api.errors import refuse
from api.parts import parts_of
from workflows.contracts.failures import Code

router = APIRouter(prefix=f"{PREFIX}/models")
_NO_STORE = {"Cache-Control": "no-store"}
_READ = ["GET", "HEAD"]


@router.api_route("", methods=_READ)
async def every_model(request: Request, caller: Authenticated, *, refresh: bool = False) -> Response:
    """All models, the unready ones too."""
    del caller  # any member may look
    shown = await models.listing(parts_of(request), refresh=refresh)
    return JSONResponse({"object": "list", "data": shown}, headers=_NO_STORE)


@router.api_route("/{model_id}", methods=_READ)
async def one_model(request: Request, caller: Authenticated, model_id: str, *, refresh: bool = False) -> Response:
    """One model, by id or alias."""
    del caller  # any member may look
    parts = parts_of(request)
    entry = parts.catalog.find(model_id)
    if entry is None:
        raise refuse(Code.MODEL_NOT_FOUND, "No such model.", param="model")
    return JSONResponse(await models.describe(parts, entry, refresh=refresh), headers=_NO_STORE)
