"""The caller of a request, as a dependency. It runs before any byte of the body is read.

On the canvas a member proves himself by his session, on the partner surface a program by its account's key;
what proves on the one is nothing on the other.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.auth.address import address_of
from api.auth.sessions import COOKIE
from api.core.surface import surface_of
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import parts_of
from infra import accounts
from infra.accounts import Member, Role
from infra.accounts.keys import ApiKey, KeyProof, Scope, key_of, proof_of
from workflows.contracts.failures import Code


@dataclass(frozen=True, slots=True)
class Caller:
    """Who acts for an account, with the rights that it has right now.

    Attributes:
        account_id: Who pays.
        role: A member's; a key's by its scopes.
        member_id: Empty for a key.
        key_id: None for a member.
        scopes: Of the key; a member has all.
    """

    account_id: str
    role: Role
    member_id: str = ""
    key_id: str | None = None
    scopes: frozenset[Scope] = frozenset(Scope)

    @property
    def may_create(self) -> bool:
        """Whether it may create and cancel; viewers may only query and fetch."""
        return self.role.creates

    @property
    def made_by(self) -> str:
        """As what it makes is signed: a member's id, or `key:` and a key's."""
        return self.member_id if self.key_id is None else f"key:{self.key_id}"

    @property
    def actor(self) -> str:
        """As events name it."""
        return self.made_by if self.key_id is not None else f"member:{self.member_id}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request showed: a session's member or a key. Whether there is such a one isn't known yet."""

    member_id: str | None = None
    key: KeyProof | None = None


def proof(request: Request) -> Proof:
    """What the request shows, of the kind that its surface takes.

    Raises:
        ApiError: 401 without a valid session, or without anything of a key's form.
    """
    if surface_of(request).by_key:
        shown = proof_of(_bearer(request))
        if shown is None:
            raise _nobody(by_key=True)
        return Proof(key=shown)
    sessions = parts_of(request).sessions
    if not sessions.configured:
        raise refuse(Code.NOT_CONFIGURED, "Sessions are not configured here.")
    member_id = sessions.member_id(_bearer(request) or request.cookies.get(COOKIE, ""))
    if member_id is None:
        raise _nobody(by_key=False)
    return Proof(member_id=member_id)


def known(request: Request, found: Member | ApiKey | None) -> Caller:
    """The caller, once the database was asked for what was shown.

    Raises:
        ApiError: 401 when there is none; 403 for a key that isn't used from where it may be.
    """
    match found:
        case None:
            raise _nobody(by_key=surface_of(request).by_key)
        case Member():
            return Caller(found.account_id, found.role, member_id=found.id)
        case ApiKey():
            if not found.allows(address_of(request, parts_of(request).settings.trusted_networks)):
                raise refuse(Code.FORBIDDEN, "This key may not be used from this network.")
            role = Role.EDITOR if Scope.GENERATE in found.scopes else Role.VIEWER
            return Caller(found.account_id, role, key_id=found.id, scopes=frozenset(found.scopes))


def refuse_viewer(caller: Caller) -> None:
    """Creating and cancelling are for others.

    Raises:
        ApiError: 403 for viewers; the same whether or not the task exists.
    """
    refuse_out_of_scope(caller, Scope.GENERATE)
    if not caller.may_create:
        raise refuse(Code.FORBIDDEN, "A viewer may query and fetch, not create or cancel.")


def refuse_out_of_scope(caller: Caller, scope: Scope) -> None:
    """A key may do what its scopes say.

    Raises:
        ApiError: 403, naming the scope.
    """
    if scope not in caller.scopes:
        raise refuse(Code.FORBIDDEN, f"This key lacks the scope `{scope}`.")


async def authenticated(request: Request) -> Caller:
    """The caller, whatever he may do.

    Raises:
        ApiError: 401 without a valid session or key.
    """
    shown = proof(request)
    async with answer_within(READ), parts_of(request).database.read() as reader:
        found: Member | ApiKey | None
        if shown.key is not None:
            found = await key_of(reader, shown.key)
        else:
            found = await accounts.member(reader, shown.member_id or "")
    return known(request, found)


async def reader(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
    """A caller who may look at tasks, models and results.

    Raises:
        ApiError: 403 for keys without the scope.
    """
    refuse_out_of_scope(caller, Scope.READ)
    return caller


async def creator(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
    """A caller who may create and cancel.

    Raises:
        ApiError: 403 for viewers; the same whether or not the task exists.
    """
    refuse_viewer(caller)
    return caller


async def accountant(caller: Annotated[Caller, Depends(authenticated)]) -> Caller:
    """A caller who may read what the account has and what it paid.

    Raises:
        ApiError: 403 for keys without the scope.
    """
    refuse_out_of_scope(caller, Scope.CREDITS)
    return caller


def _nobody(*, by_key: bool) -> ApiError:
    if by_key:
        return refuse(Code.UNAUTHENTICATED, "Send a valid API key: `Authorization: Bearer hf_…`.")
    return refuse(Code.UNAUTHENTICATED, "Log in first: there is no valid session.")


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


Authenticated = Annotated[Caller, Depends(reader)]
Creator = Annotated[Caller, Depends(creator)]
Accountant = Annotated[Caller, Depends(accountant)]
