"""Cards and shares, as operators see and steer them."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.admin import PREFIX
from api.admin.operator import Operating
from api.admin.refusals import named
from api.bodies import read_json
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import parts_of
from infra import fleet, operators
from infra.db import Tx
from workflows.contracts.failures import Code
from workflows.domain.placement.fleet import Share

ON_CARDS_MAX = 100_000
WEIGHT_MIN, WEIGHT_MAX = 0.01, 100.0
_NO_STORE = {"Cache-Control": "no-store"}
router = APIRouter(prefix=PREFIX)


@router.get("/cards")
async def cards(request: Request, _operator: Operating) -> Response:
    """Every card with its uuid, what it does and holds, what waits, and what memory runs were seen to take."""
    async with answer_within(READ), parts_of(request).database.read() as reader:
        seen = await fleet.fleet(reader)
        memory = await fleet.observed_memory(reader)
    shown = seen.model_dump(mode="json") | {"memory": [one.model_dump(mode="json") for one in memory]}
    return JSONResponse(shown, headers=_NO_STORE)


@router.post("/cards/{name}/cordon")
async def cordon(request: Request, operator: Operating, name: str) -> Response:
    """`{reason}`: no new work on the cards of this uuid, label or host; what runs goes on."""
    reason = await _reason(request)
    return await _act(
        request, lambda tx: fleet.cordon(tx, name, cordoned=True, reason=reason, actor=operator.actor)
    )


@router.post("/cards/{name}/uncordon")
async def uncordon(request: Request, operator: Operating, name: str) -> Response:
    """`{reason}`: new work again."""
    reason = await _reason(request)
    return await _act(
        request, lambda tx: fleet.cordon(tx, name, cordoned=False, reason=reason, actor=operator.actor)
    )


@router.post("/cards/{name}/quarantine")
async def quarantine(request: Request, operator: Operating, name: str) -> Response:
    """`{reason}`: no new work until a canary has passed on each."""
    reason = await _reason(request)
    return await _act(
        request, lambda tx: fleet.quarantine(tx, name, quarantined=True, reason=reason, actor=operator.actor)
    )


@router.post("/cards/{name}/readmit")
async def readmit(request: Request, operator: Operating, name: str) -> Response:
    """`{reason}`: out of quarantine without a canary."""
    reason = await _reason(request)
    return await _act(
        request, lambda tx: fleet.quarantine(tx, name, quarantined=False, reason=reason, actor=operator.actor)
    )


@router.post("/accounts/{account_id}/share")
async def share(request: Request, operator: Operating, account_id: str) -> Response:
    """`{reason, weight?, on_cards_max?}`: what the account may have of the fleet beside others."""
    body = await read_json(request)
    unknown = set(body) - {"reason", "weight", "on_cards_max"}
    if unknown:
        raise refuse(Code.INVALID_REQUEST, f"`{min(unknown)}` is not taken here.", param=min(unknown))
    wanted = Share(_weight(body.get("weight", 1.0)), _on_cards_max(body.get("on_cards_max")))
    with named(Code.ACCOUNT_UNKNOWN):
        reason = operators.reason_given(body.get("reason"))
        async with answer_within(READ), parts_of(request).database.single_statement() as tx:
            await fleet.set_share(tx, account_id=account_id, share=wanted, reason=reason, actor=operator.actor)
    return JSONResponse({"weight": wanted.weight, "on_cards_max": wanted.in_flight_max}, headers=_NO_STORE)


async def _reason(request: Request) -> str:
    body = await read_json(request)
    unknown = set(body) - {"reason"}
    if unknown:
        raise refuse(Code.INVALID_REQUEST, f"`{min(unknown)}` is not taken here.", param=min(unknown))
    with named(Code.RESOURCE_NOT_FOUND):
        return operators.reason_given(body.get("reason"))


async def _act(request: Request, act: Callable[[Tx], Awaitable[int]]) -> Response:
    with named(Code.RESOURCE_NOT_FOUND):
        async with answer_within(READ), parts_of(request).database.single_statement() as tx:
            changed = await act(tx)
    return JSONResponse({"changed": changed}, headers=_NO_STORE)


def _weight(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not WEIGHT_MIN <= value <= WEIGHT_MAX:
        message = f"`weight` is a number from {WEIGHT_MIN} to {WEIGHT_MAX:g}."
        raise refuse(Code.INVALID_REQUEST, message, param="weight")
    return float(value)


def _on_cards_max(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= ON_CARDS_MAX:
        message = f"`on_cards_max` is a whole number from 0 to {ON_CARDS_MAX}."
        raise refuse(Code.INVALID_REQUEST, message, param="on_cards_max")
    return value
