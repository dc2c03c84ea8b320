"""What an account has and what moved there, for its owner to read. Nothing here moves credits."""

from infra.statements.balance import CreditBalance, Expiring, credit_balance
from infra.statements.lines import Kind, Line, Page, Position, Span, page

__all__ = [
    "CreditBalance",
    "Expiring",
    "Kind",
    "Line",
    "Page",
    "Position",
    "Span",
    "credit_balance",
    "page",
]
