"""What an account has, and its statement, as JSON page by page or as one CSV."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import AwareDatetime

from api.auth.caller import Accountant
from api.canvas import PREFIX
from api.core import statements
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import parts_of
from infra.statements import Span, credit_balance, page
from workflows.contracts.failures import Code
from workflows.contracts.prices import UNIT

LINES = 100
LINES_MAX = 1_000
_NO_STORE = {"Cache-Control": "no-store"}
_READ = ["GET", "HEAD"]

router = APIRouter(prefix=f"{PREFIX}/credits")


@router.api_route("", methods=_READ)
async def balance(request: Request, caller: Accountant) -> Response:
    """`{unit, posted, held, available, spent, expiring}`."""
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await credit_balance(reader, caller.account_id)
    return JSONResponse({"unit": UNIT} | found.model_dump(mode="json"), headers=_NO_STORE)


@router.api_route("/statement", methods=_READ)
async def statement(
    request: Request,
    caller: Accountant,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: Annotated[str | None, Query(max_length=statements.CURSOR_CHARS_MAX)] = None,
    limit: Annotated[int | None, Query(ge=1, le=LINES_MAX)] = None,
    form: Annotated[Literal["json", "csv"] | None, Query(alias="format")] = None,
) -> Response:
    """Lines, the newest first. A CSV is whole; JSON goes on at `next_cursor`."""
    span = Span(since=since, until=until)
    if form == "csv" or (form is None and statements.prefers_csv(request.headers.get("accept", ""))):
        if cursor is not None or limit is not None:
            name = "cursor" if cursor is not None else "limit"
            message = f"A CSV is whole and takes no `{name}`; bound it by `from` and `to`."
            raise refuse(Code.INVALID_REQUEST, message, param=name)
        return await _csv(request, caller.account_id, span)
    if cursor is not None and (since is not None or until is not None):
        raise refuse(Code.INVALID_REQUEST, "`cursor` knows its span; leave `from` and `to` out.", param="cursor")
    start = span if cursor is None else statements.position_of(cursor)
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found = await page(reader, caller.account_id, start=start, limit=limit or LINES)
    body = {
        "unit": UNIT,
        "lines": [statements.shown(line) for line in found.lines],
        "next_cursor": statements.cursor_of(found.further) if found.further else None,
    }
    return JSONResponse(body, headers=_NO_STORE)


async def _csv(request: Request, account_id: str, span: Span) -> Response:
    """The first lines are read before the answer begins, so that what fails early fails as an error."""
    database = parts_of(request).database
    async with answer_within(READ), database.read() as reader:
        first = await page(reader, account_id, start=span, limit=LINES_MAX)

    async def pieces() -> AsyncIterator[str]:
        yield statements.csv_head()
        found = first
        while True:
            yield statements.csv_lines(found.lines)
            if found.further is None:
                return
            async with answer_within(READ), database.read() as reader:
                found = await page(reader, account_id, start=found.further, limit=LINES_MAX)

    headers = _NO_STORE | {"Content-Disposition": 'attachment; filename="statement.csv"'}
    return StreamingResponse(pieces(), headers=headers, media_type="text/csv; charset=utf-8")
