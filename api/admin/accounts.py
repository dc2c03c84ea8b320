"""Accounts, as operators see them, give to them, correct and stop them."""

import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import AwareDatetime, TypeAdapter, ValidationError

from api.admin import PREFIX
from api.admin.operator import Operating, Operator
from api.admin.refusals import named
from api.bodies import read_json
from api.core.operation import operation_id
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import Parts, parts_of
from infra import operators
from workflows.contracts.failures import Code

_ID = re.compile(r"[\x21-\x7e]{1,64}")
_CAUSES = ("grant", "top_up", "promotion")
_MOMENT: TypeAdapter[AwareDatetime] = TypeAdapter(AwareDatetime)
router = APIRouter(prefix=f"{PREFIX}/accounts")


@router.get("/{account_id}")
async def show(request: Request, _operator: Operating, account_id: str) -> Response:
    """Balance, members, limits and what is used of them."""
    return await _shown(parts_of(request), account_id)


@router.post("/{account_id}/grant")
async def grant(request: Request, operator: Operating, account_id: str) -> Response:
    """`{credits, reason, cause?, expires_at?}`, once for each operation id."""
    parts, given = await _given(request, operator, account_id, least=1, takes=("cause", "expires_at"))
    with named(Code.ACCOUNT_UNKNOWN):
        async with answer_within(READ), parts.database.single_statement() as tx:
            made = await operators.grant(tx, given)
    return await _shown(parts, account_id, made=made)


@router.post("/{account_id}/adjust")
async def adjust(request: Request, operator: Operating, account_id: str) -> Response:
    """`{credits, reason, task_id?}`: below zero takes credits; once for each operation id."""
    parts, given = await _given(request, operator, account_id, least=-operators.CREDITS_MAX, takes=("task_id",))
    if given.task_id is not None:
        with named(Code.TASK_NOT_FOUND):
            async with answer_within(READ), parts.database.read() as reader:
                await operators.brief(reader, given.task_id)
    with named(Code.ACCOUNT_UNKNOWN):
        async with answer_within(READ), parts.database.single_statement() as tx:
            made = await operators.adjust(tx, given)
    return await _shown(parts, account_id, made=made)


@router.post("/{account_id}/freeze")
async def freeze(request: Request, operator: Operating, account_id: str) -> Response:
    """`{reason}`: no new holds; open generations go on."""
    return await _freeze(request, operator, account_id, frozen=True)


@router.post("/{account_id}/unfreeze")
async def unfreeze(request: Request, operator: Operating, account_id: str) -> Response:
    """`{reason}`: holds again."""
    return await _freeze(request, operator, account_id, frozen=False)


@router.post("/{account_id}/limits")
async def limits(request: Request, operator: Operating, account_id: str) -> Response:
    """All bounds at once, of the account or of its key `key_id`; those left out bound nothing."""
    _check_id(account_id)
    parts, body = parts_of(request), await read_json(request)
    _refuse_others(body, (*operators.BOUNDS, "reason", "key_id"))
    key_id = _text(body, "key_id")
    wanted: dict[str, int] = {}
    for name, most in operators.BOUNDS.items():
        if body.get(name) is not None:
            with _amounts(name):
                wanted[name] = operators.amount(body[name], name=name, least=0, most=most)
    with named(Code.ACCOUNT_UNKNOWN):
        async with answer_within(READ), parts.database.transaction() as tx:
            await operators.set_limits(
                tx,
                account_id=account_id,
                key_id=key_id,
                limits=operators.Limits(**wanted),
                reason=operators.reason_given(body.get("reason")),
                actor=operator.actor,
            )
    return await _shown(parts, account_id)


async def _freeze(request: Request, operator: Operator, account_id: str, *, frozen: bool) -> Response:
    _check_id(account_id)
    parts, body = parts_of(request), await read_json(request)
    _refuse_others(body, ("reason",))
    with named(Code.ACCOUNT_UNKNOWN):
        reason = operators.reason_given(body.get("reason"))
        async with answer_within(READ), parts.database.single_statement() as tx:
            await operators.freeze(tx, account_id=account_id, frozen=frozen, reason=reason, actor=operator.actor)
    return await _shown(parts, account_id)


async def _given(
    request: Request, operator: Operator, account_id: str, *, least: int, takes: tuple[str, ...]
) -> tuple[Parts, operators.AmountGiven]:
    _check_id(account_id)
    key = operation_id(request)
    body = await read_json(request)
    _refuse_others(body, ("credits", "reason", *takes))
    with _amounts("credits"):
        amount = operators.amount(body.get("credits"), least=least)
    with named(Code.ACCOUNT_UNKNOWN):
        reason = operators.reason_given(body.get("reason"))
    cause = body.get("cause", "grant")
    if cause not in _CAUSES:
        raise refuse(Code.INVALID_REQUEST, f"`cause` is one of {', '.join(_CAUSES)}.", param="cause")
    return parts_of(request), operators.AmountGiven(
        account_id=account_id,
        credits=amount,
        key=f"admin:{key}",
        reason=reason,
        actor=operator.actor,
        task_id=_text(body, "task_id"),
        cause=cause,
        expires_at=_moment(body.get("expires_at")),
    )


def _amounts(name: str) -> Any:
    """Refusals of an amount name its field."""
    return named(Code.ACCOUNT_UNKNOWN, param=name)


def _refuse_others(body: dict[str, Any], takes: tuple[str, ...]) -> None:
    for name in body:
        if name not in takes:
            raise refuse(Code.INVALID_REQUEST, f"`{name}` is not taken here; {', '.join(takes)} are.", param=name)


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise refuse(Code.INVALID_REQUEST, f"`{name}` is text.", param=name)
    return value


def _moment(value: object) -> AwareDatetime | None:
    if value is None:
        return None
    try:
        return _MOMENT.validate_python(value if isinstance(value, str) else "")
    except ValidationError as error:
        message = "`expires_at` is a moment with its zone, as 2027-01-31T00:00:00Z."
        raise refuse(Code.INVALID_REQUEST, message, param="expires_at") from error


def _check_id(account_id: str) -> None:
    if not _ID.fullmatch(account_id):
        raise refuse(Code.ACCOUNT_UNKNOWN, "No such account that pays.")


async def _shown(parts: Parts, account_id: str, **more: Any) -> Response:
    _check_id(account_id)
    with named(Code.ACCOUNT_UNKNOWN):
        async with answer_within(READ), parts.database.read() as reader:
            found = await operators.payer(reader, account_id)
    return JSONResponse(found.model_dump(mode="json") | more, headers={"Cache-Control": "no-store"})
