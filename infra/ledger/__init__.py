"""The ledger: double entry in whole credits. The database itself refuses overdraft and double settlement."""

from infra.ledger.accounts import (
    HOUSE,
    AccountKind,
    AccountKindDiffers,
    Balance,
    balance,
    freeze,
    open_account,
)
from infra.ledger.audit import INVARIANTS, Finding, audit
from infra.ledger.bookings import adjust, expire_lots, grant, promote, top_up

__all__ = [
    "HOUSE",
    "INVARIANTS",
    "AccountKind",
    "AccountKindDiffers",
    "Balance",
    "Finding",
    "adjust",
    "audit",
    "balance",
    "expire_lots",
    "freeze",
    "grant",
    "open_account",
    "promote",
    "top_up",
]
