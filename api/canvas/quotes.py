"""Prices before creating."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.auth.caller import Authenticated
from api.bodies import read_json
from api.canvas import PREFIX
from api.core.quotes import quote
from api.errors import refuse
from api.parts import parts_of
from workflows.contracts.failures import Code

router = APIRouter(prefix=f"{PREFIX}/quotes")


@router.post("")
async def price(request: Request, caller: Authenticated) -> Response:
    """What a creation with this body would hold, sizes standing for files. It needs no operation id."""
    name = next(iter(request.query_params), None)
    if name is not None:
        message = f"`{name[:100]}` came in the address; parameters belong into the body."
        raise refuse(Code.INVALID_REQUEST, message, param=name[:100])
    answer = await quote(parts_of(request), caller, await read_json(request))
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})
