"""Spending limits of accounts and of keys: what they are, where they stand, and how a refusal says it.

The database keeps them: `admit_v1` counts under the account's lock. What is read here before that is a hint, so
that a storm of refusals starts no workflows.
"""

from infra.limits.limits import Limits, LimitsOf, account_subject, key_subject, limits_of, set_limits
from infra.limits.refusals import LimitStanding, limit_refusal, standing_refusal

__all__ = [
    "LimitStanding",
    "Limits",
    "LimitsOf",
    "account_subject",
    "key_subject",
    "limit_refusal",
    "limits_of",
    "set_limits",
    "standing_refusal",
]
