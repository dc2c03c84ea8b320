"""What operators see and do. Every act is kept with who, why and when, in the transaction of its deed.

The admin surface and the command line both come here; there is no second way.
"""

from infra.operators.acting import adjust, freeze, grant, set_limits, set_operator
from infra.operators.courses import Courses, DecisionPending, ServerCourses, decide
from infra.operators.reading import Acts, acts, brief, find, findings, is_operator, payer, story
from infra.operators.records import (
    BOUNDS,
    CREDITS_MAX,
    Act,
    AmountGiven,
    Brief,
    Limits,
    OpenFinding,
    Payer,
    Story,
    SweepStanding,
    amount,
    check_limits,
    reason_given,
)
from infra.operators.telling import Explanation, explain

__all__ = [
    "BOUNDS",
    "CREDITS_MAX",
    "Act",
    "Acts",
    "AmountGiven",
    "Brief",
    "Courses",
    "DecisionPending",
    "Explanation",
    "Limits",
    "OpenFinding",
    "Payer",
    "ServerCourses",
    "Story",
    "SweepStanding",
    "acts",
    "adjust",
    "amount",
    "brief",
    "check_limits",
    "decide",
    "explain",
    "find",
    "findings",
    "freeze",
    "grant",
    "is_operator",
    "payer",
    "reason_given",
    "set_limits",
    "set_operator",
    "story",
]
