"""What the database and the workflows refuse an operator, as answers with a name."""

from collections.abc import Iterator
from contextlib import contextmanager

from api.errors import ApiError, refuse
from infra.db import DatabaseAway, DatabaseTrouble
from infra.db import errors as db
from infra.operators import DecisionPending
from infra.temporal.generations import TemporalAway
from workflows.contracts.failures import Code

_CODES: dict[type[DatabaseTrouble], tuple[Code, str | None]] = {
    db.AmountOutOfRange: (Code.AMOUNT_OUT_OF_RANGE, "credits"),
    db.ReasonMissing: (Code.REASON_MISSING, "reason"),
    db.AdjustmentExceeded: (Code.ADJUSTMENT_EXCEEDED, "credits"),
    db.Overdraft: (Code.INSUFFICIENT_CREDITS, "credits"),
    db.KeyReused: (Code.OPERATION_CONFLICT, None),
    db.WrongCounterpart: (Code.INVALID_REQUEST, "task_id"),
    db.UnfitTerm: (Code.INVALID_REQUEST, "expires_at"),
    db.AlreadyFinal: (Code.ALREADY_FINAL, None),
    db.NothingToResolve: (Code.NOTHING_TO_RESOLVE, None),
    DecisionPending: (Code.DECISION_PENDING, None),
}


@contextmanager
def named(absent: Code, *, task_id: str | None = None, param: str | None = None) -> Iterator[None]:
    """Turn refusals of the block into answers.

    Args:
        absent: What a missing row means.
        task_id: Named in the answer.
        param: The field that is read, when it is one.

    Raises:
        ApiError: By its name, with nothing changed.
    """
    try:
        yield
    except DatabaseAway:
        raise
    except db.NoSuchRow as error:
        raise refuse(absent, _sentence(error), task_id=task_id) from error
    except DatabaseTrouble as error:
        code, field = _CODES.get(type(error), (Code.INVALID_REQUEST, None))
        raise refuse(code, _sentence(error), param=param or field, task_id=task_id) from error


@contextmanager
def decided(task_id: str) -> Iterator[None]:
    """Where a decision got no answer, it may have been taken all the same.

    Raises:
        ApiError: 504.
    """
    try:
        yield
    except TemporalAway as error:
        raise undecided(task_id) from error


def undecided(task_id: str) -> ApiError:
    """No answer in time."""
    message = "No answer in time; the decision may have been taken. Ask for its explanation before repeating it."
    return refuse(Code.GATEWAY_TIMEOUT, message, task_id=task_id)


def _sentence(error: Exception) -> str:
    text = str(error).strip()
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
