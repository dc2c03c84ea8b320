"""Accounts and what they hold. Credits are whole numbers; they move by transfers only."""

from enum import StrEnum

from infra.db import Reader, Tx, load
from infra.db.errors import NoSuchRow, Refused
from workflows.contracts.message import Message

_QUERIES = load(__package__)

HOUSE = "house"
"""The platform's own account; pays for canaries."""


class AccountKind(StrEnum):
    """What an account is for."""

    USER = "user"
    """One person's; its one member is its owner."""
    ORGANISATION = "organisation"
    """Shared by members of any role."""
    HOUSE = "house"
    REVENUE = "revenue"
    """Where spent credits end; one, made by the migrations."""
    ISSUANCE = "issuance"
    """Where granted credits begin, negative by all that was ever granted; one, made by the migrations."""
    PROMOTION = "promotion"
    """Where credits that expire begin and, unspent, end; one, made by the migrations."""
    LOSS = "loss"
    """Negative by what the house bore; one, made by the migrations."""


class AccountKindDiffers(Refused):
    """An account of this id exists and is of another kind."""


class Balance(Message):
    """What an account has.

    Attributes:
        available: Credits that can be held; what is past its date doesn't count.
        held: Credits of open generations.
        spent: Credits ever charged, or taken by an adjustment.
    """

    available: int
    held: int
    spent: int


async def open_account(tx: Tx, *, account_id: str, kind: AccountKind, name: str) -> None:
    """Make an account, empty; harmless when it exists.

    Raises:
        AccountKindDiffers: it exists with another kind.
    """
    found = await tx.value(_QUERIES["open_account"], account_id=account_id, kind=kind, name=name)
    if found != kind:
        raise AccountKindDiffers(f"account {account_id} is of kind {found}")


async def balance(reader: Reader, account_id: str) -> Balance:
    """What the account has.

    Raises:
        NoSuchRow: no such account.
    """
    row = await reader.one(_QUERIES["balance"], account_id=account_id)
    if row is None:
        raise NoSuchRow(f"no account {account_id}")
    return Balance.model_validate(row)


async def freeze(tx: Tx, *, account_id: str, frozen: bool, reason: str, actor: str) -> bool:
    """Refuse new generations of an account, or allow them again; open ones go on. False when it was so before.

    Raises:
        NoSuchRow: no such account that pays.
        ReasonMissing: reason or actor are blank.
    """
    changed = await tx.value(_QUERIES["freeze"], account_id=account_id, frozen=frozen, reason=reason, actor=actor)
    return bool(changed)
