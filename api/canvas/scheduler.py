"""The fleet, as far as clients may see it."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.auth.caller import Authenticated
from api.canvas import PREFIX
from api.core import scheduler
from api.parts import parts_of

router = APIRouter(prefix=f"{PREFIX}/scheduler")
_NO_STORE = {"Cache-Control": "no-store"}
_READ = ["GET", "HEAD"]


@router.api_route("/status", methods=_READ)
async def status(
    request: Request, caller: Authenticated, *, refresh: bool = False, force: bool = False
) -> Response:
    """Cards, what runs and waits, the caller's part. `refresh` and `force` skip the short cache."""
    shown = await scheduler.status(parts_of(request), caller, fresh=refresh or force)
    return JSONResponse(shown, headers=_NO_STORE)


@router.api_route("/capabilities", methods=_READ)
async def capabilities(request: Request, caller: Authenticated) -> Response:
    """Which model is routed where. Here `refresh` changes nothing: a deep probe is for operators."""
    del caller  # any member may look
    return JSONResponse(await scheduler.capabilities(parts_of(request), fresh=False), headers=_NO_STORE)
