"""Generations, as operators find, understand and decide them."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from api.admin import PREFIX
from api.admin.operator import Operating
from api.admin.refusals import decided, named
from api.bodies import read_json
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import Parts, parts_of
from infra import operators
from infra.generations import doubts
from infra.temporal.configuration import read_configuration
from infra.temporal.courses import Fault, Look
from infra.temporal.generations import TemporalAway
from workflows.contracts.failures import Code
from workflows.contracts.generation import Resolution
from workflows.contracts.states import Decision

LISTED_MAX = 200
_ID = re.compile(r"[\x21-\x7e]{1,200}")
router = APIRouter(prefix=PREFIX)
Text = Annotated[str | None, Query(max_length=200)]


@router.get("/generations")
async def find(
    request: Request,
    _operator: Operating,
    operation_id: Text = None,
    task_id: Text = None,
    hold: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    account: Text = None,
) -> Response:
    """By one of what an operator may have in hand; with an account the others narrow it down."""
    given = {"operation_id": operation_id, "task_id": task_id, "account": account}
    if hold is None and not any(given.values()):
        raise refuse(Code.INVALID_REQUEST, "Give `operation_id`, `task_id`, `hold` or `account`.")
    for name, value in given.items():
        if value is not None and not _ID.fullmatch(value):
            raise refuse(Code.INVALID_REQUEST, f"`{name}` takes visible ASCII characters.", param=name)
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await operators.find(
            reader, task_id=task_id, operation_id=operation_id, hold=hold, account_id=account
        )
    return _json({"data": [one.model_dump(mode="json") for one in found]})


@router.get("/generations/{task_id}/explain")
async def explain(request: Request, _operator: Operating, task_id: str) -> Response:
    """The whole story, with its evidence."""
    parts = parts_of(request)
    _check_id(task_id)
    with named(Code.TASK_NOT_FOUND):
        async with answer_within(READ), parts.database.read() as reader:
            story = await operators.story(reader, task_id)
    look, fault = await _workflow(parts, task_id)
    told = operators.explain(story, look, fault, ui_url=_ui_url(parts, task_id))
    return _json(told.model_dump(mode="json"))


@router.post("/generations/{task_id}/resolve")
async def resolve(request: Request, operator: Operating, task_id: str) -> Response:
    """`{decision: settle | release, reason}` for an outcome that nobody knows."""
    parts = parts_of(request)
    _check_id(task_id)
    body = await read_json(request)
    decision = body.get("decision")
    if decision not in {one.value for one in Decision}:
        raise refuse(Code.INVALID_REQUEST, "`decision` is `settle` or `release`.", param="decision")
    with named(Code.TASK_NOT_FOUND, task_id=task_id), decided(task_id):
        resolution = Resolution(
            decision=Decision(decision), reason=operators.reason_given(body.get("reason")), actor=operator.name
        )
        courses = await parts.generations.courses()
        closing = await operators.decide(parts.database, courses, task_id, resolution)
    return _json(closing.model_dump(mode="json"))


@router.get("/unknown")
async def unknown(
    request: Request, _operator: Operating, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = LISTED_MAX
) -> Response:
    """Outcomes that nobody knows, the oldest first, and searches that go on after a release."""
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await doubts.unknown_now(reader, limit=limit)
        searches = await doubts.late_now(reader, limit=limit)
    return _json(
        {
            "credits_listed": sum(one.price_credits for one in found),
            "data": [one.model_dump(mode="json") for one in found],
            "late_searches": [one.model_dump(mode="json") for one in searches],
        }
    )


async def _workflow(parts: Parts, task_id: str) -> tuple[Look | None, Fault | None]:
    """A server that is away is no reason not to tell the rest."""
    try:
        async with answer_within(READ, "workflow server"):
            courses = await parts.generations.courses()
            look = await courses.look(task_id)
            return look, await courses.fault(task_id, look)
    except TemporalAway:
        return None, None


def _ui_url(parts: Parts, task_id: str) -> str | None:
    base = parts.settings.temporal_ui_url
    if base is None:
        return None
    namespace = read_configuration(parts.settings).namespace.name
    return f"{base.rstrip('/')}/namespaces/{namespace}/workflows/{task_id}"


def _check_id(task_id: str) -> None:
    if not _ID.fullmatch(task_id):
        raise refuse(Code.TASK_NOT_FOUND, "No such task.")


def _json(content: Any) -> Response:
    return JSONResponse(content, headers={"Cache-Control": "no-store"})
