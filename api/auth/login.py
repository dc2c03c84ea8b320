"""Logging in and out."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.auth.sessions import COOKIE
from api.bodies import read_json
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import parts_of
from infra import accounts
from workflows.contracts.failures import Code, Failure

EMAIL_CHARS_MAX = 254
PASSWORD_CHARS_MAX = 1_024
"""scrypt's cost doesn't grow with it, but hashing a megabyte for a stranger would."""

router = APIRouter(prefix="/api/auth")


@router.post("/login")
async def login(request: Request) -> Response:
    """`{email, password}` → a session, as a cookie and as `{token, expires_in}`."""
    parts = parts_of(request)
    if not parts.sessions.configured:
        raise refuse(Code.NOT_CONFIGURED, "Sessions are not configured here.")
    body = await read_json(request)
    email = _text(body, "email", EMAIL_CHARS_MAX).strip().lower()
    password = _text(body, "password", PASSWORD_CHARS_MAX)
    wait_s = parts.throttle.wait_s(email)
    if wait_s is not None:
        message = "Too many wrong passwords for this email; the limit is 10 in 5 minutes."
        raise ApiError(Failure(code=Code.RATE_LIMITED, message=message, param="email", retry_after_s=wait_s))
    async with answer_within(READ), parts.database.read() as reader:
        member = await accounts.authenticate(reader, email, password)
    if member is None:
        parts.throttle.failed(email)
        raise refuse(Code.UNAUTHENTICATED, "Email or password is wrong.")
    parts.throttle.succeeded(email)
    token = parts.sessions.issue(member.id)
    response = JSONResponse(
        {"token": token, "expires_in": parts.sessions.seconds}, headers={"Cache-Control": "no-store"}
    )
    response.set_cookie(
        COOKIE,
        token,
        max_age=parts.sessions.seconds,
        httponly=True,
        samesite="lax",  # a form on another site can't create a paid generation with our cookie
        secure=parts.settings.public_url.startswith("https://"),
    )
    return response


@router.post("/logout")
async def logout() -> Response:
    """Forget the cookie. The token itself ends by its age."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE)
    return response


def _text(body: dict[str, Any], name: str, chars_max: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise refuse(Code.INVALID_REQUEST, f"`{name}` is required, as text.", param=name)
    if len(value) > chars_max:
        message = f"`{name}` has {len(value)} characters; the limit is {chars_max}."
        raise refuse(Code.INVALID_REQUEST, message, param=name)
    return value
