"""The sweep and the acts, as operators see and start them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from api.admin import PREFIX
from api.admin.operator import Operating
from api.bodies import read_json
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import parts_of
from infra import operators
from workflows.contracts.failures import Code
from workflows.contracts.sweep import SweepOrder

LISTED_MAX = 200
router = APIRouter(prefix=PREFIX)


@router.get("/sweep")
async def findings(request: Request, _operator: Operating) -> Response:
    """What is found and not mended, what ended last, and when each step was last done."""
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await operators.findings(reader)
    return JSONResponse(found.model_dump(mode="json"), headers={"Cache-Control": "no-store"})


@router.post("/sweep")
async def sweep(request: Request, operator: Operating) -> Response:
    """`{dry_run?}`: sweep now; 202 when it takes longer than 20 s and goes on."""
    body = await read_json(request)
    dry_run = body.get("dry_run", False)
    if not isinstance(dry_run, bool) or set(body) - {"dry_run"}:
        raise refuse(
            Code.INVALID_REQUEST, "`dry_run` is true or false, and nothing else is taken.", param="dry_run"
        )
    report = await parts_of(request).generations.sweep(SweepOrder(dry_run=dry_run, actor=operator.actor))
    if report is None:
        return JSONResponse({"status": "running"}, status_code=202)
    return JSONResponse({"status": "done", **report.model_dump(mode="json")})


@router.get("/acts")
async def acts(
    request: Request,
    _operator: Operating,
    subject: Annotated[str | None, Query(max_length=200, pattern=r"^[\x21-\x7e]+$")] = None,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 50,
) -> Response:
    """What operators did, the latest first; `before` pages back."""
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await operators.acts(reader, subject=subject, before=before, limit=limit)
    return JSONResponse(
        {"data": [act.model_dump(mode="json") for act in found]}, headers={"Cache-Control": "no-store"}
    )
