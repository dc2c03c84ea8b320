"""The ledger: double entry in whole credits. The database itself refuses overdraft and double settlement."""

from infra.ledger.accounts import (
    HOUSE,
    AccountKind,
    AccountKindDiffers,
    Balance,
    balance,
    freeze,
    grant,
    open_account,
)
from infra.ledger.audit import INVARIANTS, Finding, audit

__all__ = [
    "HOUSE",
    "INVARIANTS",
    "AccountKind",
    "AccountKindDiffers",
    "Balance",
    "Finding",
    "audit",
    "balance",
    "freeze",
    "grant",
    "open_account",
]
