"""What an account has."""

from datetime import datetime

from infra.db import Reader, load
from infra.db.errors import NoSuchRow
from workflows.contracts.message import Message

_QUERIES = load(__package__)


class Expiring(Message):
    """Credits that are lost at a date unless they are held or spent by then."""

    credits: int
    expires_at: datetime


class CreditBalance(Message):
    """An account's credits. What is past its date never counts, whether or not that was booked yet.

    Attributes:
        posted: All that the account has: received, less what was paid and what expired.
        held: The part of it that open generations hold.
        available: The other part: what can be held.
        spent: Ever paid: charged for generations, or taken by an adjustment.
        expiring: The part of `available` that has a date, the next date first.
    """

    posted: int
    held: int
    available: int
    spent: int
    expiring: tuple[Expiring, ...]


async def credit_balance(reader: Reader, account_id: str) -> CreditBalance:
    """What the account has now.

    Raises:
        NoSuchRow: no such account that pays.
    """
    row = await reader.one(_QUERIES["credit_balance"], account_id=account_id)
    if row is None:
        raise NoSuchRow(f"no account {account_id} that pays")
    return CreditBalance.model_validate(row)
