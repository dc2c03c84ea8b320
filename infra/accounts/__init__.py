"""Members: who may act for an account, and how they prove it."""

import asyncio
import secrets
from enum import StrEnum
from functools import cache

from infra.accounts.passwords import hash_password, verify_password
from infra.db import Reader, Tx, load
from workflows.contracts.message import Message

_QUERIES = load(__package__)


class Role(StrEnum):
    """What a member may do."""

    OWNER = "owner"
    EDITOR = "editor"
    VIEWER = "viewer"
    """May query and fetch, not create or cancel."""

    @property
    def creates(self) -> bool:
        """Whether the role may create and cancel."""
        return self is not Role.VIEWER


class Member(Message):
    """Somebody who acts for an account.

    Attributes:
        id: `mem_` and 24 hex digits.
        account_id: Who pays.
        email: In lower case.
        role: What he may do.
    """

    id: str
    account_id: str
    email: str
    role: Role


async def create_member(tx: Tx, *, account_id: str, email: str, password: str, role: Role) -> Member:
    """Make a member.

    Raises:
        EmailTaken: one with this address exists.
        ValueError: the password is too long.
    """
    hashed = await asyncio.to_thread(hash_password, password)
    row = await tx.one(
        _QUERIES["create_member"],
        id=f"mem_{secrets.token_hex(12)}",
        account_id=account_id,
        email=email.strip().lower(),
        password_hash=hashed,
        role=role,
    )
    return Member.model_validate(row)


async def authenticate(reader: Reader, email: str, password: str) -> Member | None:
    """The member with this address and password; an unknown address takes as long as a wrong password."""
    row = await reader.one(_QUERIES["by_email"], email=email.strip().lower())
    stored = row["password_hash"] if row else await asyncio.to_thread(_nobodys_hash)
    matches = await asyncio.to_thread(verify_password, password, stored)
    return Member.model_validate(row) if row and matches else None


async def member(reader: Reader, member_id: str) -> Member | None:
    """The member of this id."""
    row = await reader.one(_QUERIES["by_id"], id=member_id)
    return None if row is None else Member.model_validate(row)


async def set_password(tx: Tx, *, member_id: str, password: str) -> bool:
    """Replace a password; False when there is no such member."""
    hashed = await asyncio.to_thread(hash_password, password)
    return await tx.run(_QUERIES["set_password"], id=member_id, password_hash=hashed) == 1


@cache
def _nobodys_hash() -> str:
    """What an unknown address is compared with, so that it costs the same time."""
    return hash_password(secrets.token_hex(16))
