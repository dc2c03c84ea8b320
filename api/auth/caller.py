"""The caller of a request, as a dependency. It runs before any byte of the body is read."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.auth.sessions import COOKIE
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import parts_of
from infra import accounts
from infra.accounts import Member, Role
from workflows.contracts.failures import Code


@dataclass(frozen=True, slots=True)
class Caller:
    """A member of an account, with the role that it has right now."""

    member_id: str
    account_id: str
    role: Role

    @property
    def may_create(self) -> bool:
        """Whether it may create and cancel; viewers may only query and fetch."""
        return self.role.creates


def session_of(request: Request) -> str:
    """The member whom the bearer token or the cookie names; whether there is such a member isn't known yet.

    Raises:
        ApiError: 401 without a valid session.
    """
    sessions = parts_of(request).sessions
    if not sessions.configured:
        raise refuse(Code.NOT_CONFIGURED, "Sessions are not configured here.")
    member_id = sessions.member_id(_token(request))
    if member_id is None:
        raise _nobody()
    return member_id


def known(member: Member | None) -> Caller:
    """The caller, once the database was asked for the session's member.

    Raises:
        ApiError: 401 when there is none.
    """
    if member is None:
        raise _nobody()
    return Caller(member_id=member.id, account_id=member.account_id, role=member.role)


def refuse_viewer(caller: Caller) -> None:
    """Creating and cancelling are for others.

    Raises:
        ApiError: 403 for viewers; the same whether or not the task exists.
    """
    if not caller.may_create:
        raise refuse(Code.FORBIDDEN, "A viewer may query and fetch, not create or cancel.")


async def authenticated(request: Request) -> Caller:
    """The caller, by bearer token or cookie.

    Raises:
        ApiError: 401 without a valid session.
    """
    member_id = session_of(request)
    async with answer_within(READ), parts_of(request).database.read() as reader:
        return known(await accounts.member(reader, member_id))


async def creator(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
    """A caller who may create and cancel.

    Raises:
        ApiError: 403 for viewers; the same whether or not the task exists.
    """
    refuse_viewer(caller)
    return caller


def _nobody() -> ApiError:
    return refuse(Code.UNAUTHENTICATED, "Log in first: there is no valid session.")


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.cookies.get(COOKIE, "")


Authenticated = Annotated[Caller, Depends(authenticated)]
Creator = Annotated[Caller, Depends(creator)]
