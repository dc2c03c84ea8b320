"""What can go wrong with the database, as nouns; the only place that reads SQLSTATEs and constraint names.

::

    DatabaseTrouble
    ├── DatabaseAway              no answer can be had now; the same step may be repeated
    │   └── DatabaseBusy          it answers, but not in time: a lock, a deadlock, a statement too slow
    ├── SchemaMismatch            the migrations in the database and in the code disagree
    └── Refused                   the database holds a rule that the statement would break
        ├── Overdraft
        ├── HoldAlreadyResolved
        ├── HoldAlreadyTaken
        ├── HoldExceeded
        ├── WrongCounterpart
        ├── ContradictoryClosing
        ├── IllegalTransition
        ├── OnlyGrows
        ├── NoSuchRow
        ├── EmailTaken
        ├── KeyReused
        ├── AmountOutOfRange
        ├── ReasonMissing
        ├── AdjustmentExceeded
        ├── AlreadyFinal
        ├── NothingToResolve
        ├── SecondMember
        └── UnfitTerm
"""

import psycopg
from psycopg import errors as pg


class DatabaseTrouble(Exception):
    """The database did not do what it was asked."""

    def __init__(self, message: str | None = None) -> None:
        """A class's docstring is its message unless a better one is at hand."""
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class DatabaseAway(DatabaseTrouble):
    """The database can't be reached; whether the last statement took effect is not known."""


class DatabaseBusy(DatabaseAway):
    """The database did not get to it in time; nothing was changed."""


class SchemaMismatch(DatabaseTrouble):
    """The migrations in the database and in the code disagree."""


class Refused(DatabaseTrouble):
    """The database refused what would break one of its rules."""


class Overdraft(Refused):
    """The account's available credits don't cover this."""


class HoldAlreadyResolved(Refused):
    """The hold was posted or voided before."""


class HoldAlreadyTaken(Refused):
    """The generation has a hold already."""


class HoldExceeded(Refused):
    """More than the hold can't be charged."""


class WrongCounterpart(Refused):
    """A resolution must name the accounts and the generation of its own hold."""


class ContradictoryClosing(Refused):
    """The generation was settled with another amount."""


class IllegalTransition(Refused):
    """This step may not follow the generation's present state."""


class OnlyGrows(Refused):
    """Rows of money are never changed or removed."""


class NoSuchRow(Refused):
    """What the statement names isn't there."""


class EmailTaken(Refused):
    """A member with this address exists."""


class KeyReused(Refused):
    """The key was used before, for something else."""


class AmountOutOfRange(Refused):
    """An amount is a whole number of credits from 1 to 1,000,000,000,000."""


class ReasonMissing(Refused):
    """What an operator does needs a reason and an actor."""


class AdjustmentExceeded(Refused):
    """Adjustments of a generation never give back more than was charged, nor take back more than they gave."""


class AlreadyFinal(Refused):
    """The generation is over; what was booked stays."""


class NothingToResolve(Refused):
    """The generation is open and its outcome isn't in doubt."""


class SecondMember(Refused):
    """A user's account has one member, its owner; only an organisation takes more."""


class UnfitTerm(Refused):
    """A cause, a date or a bound doesn't fit what is to be booked."""


_BY_CONSTRAINT: dict[str, type[Refused]] = {
    "no_overdraft": Overdraft,
    "one_resolution_per_hold": HoldAlreadyResolved,
    "one_hold_per_generation": HoldAlreadyTaken,
    "one_transfer_per_key": KeyReused,
    "one_member_per_email": EmailTaken,
    "one_generation_per_operation": HoldAlreadyTaken,
    "amount_in_range": AmountOutOfRange,
    "amount_is_not_negative": AmountOutOfRange,
    "figures_are_exact": AmountOutOfRange,
    "reason_is_said": ReasonMissing,
    "act_is_explained": ReasonMissing,
    "limit_is_explained": ReasonMissing,
}

_BY_SQLSTATE: dict[str, type[Refused]] = {
    "HF001": NoSuchRow,
    "HF002": ContradictoryClosing,
    "HF003": OnlyGrows,
    "HF004": IllegalTransition,
    "HF005": HoldExceeded,
    "HF006": WrongCounterpart,
    "HF007": AmountOutOfRange,
    "HF008": ReasonMissing,
    "HF009": KeyReused,
    "HF010": AdjustmentExceeded,
    "HF011": AlreadyFinal,
    "HF012": NothingToResolve,
    "HF013": SecondMember,
    "HF014": UnfitTerm,
}

_BUSY = frozenset({
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "55P03",  # lock_not_available: lock_timeout
    "57014",  # query_canceled: statement_timeout
})  # fmt: skip

_AWAY_CLASSES = frozenset({
    "08",  # connection exception
    "53",  # insufficient resources: too many connections, disk full
    "57",  # operator intervention: shutdown, crash, starting up
    "58",  # system error outside Postgres, as an I/O error
})  # fmt: skip


def translate(error: psycopg.Error) -> Exception:
    """The error of ours that `error` means; `error` itself when it is a fault in a statement of ours."""
    state = error.sqlstate
    if state in _BUSY:
        return DatabaseBusy(str(error))
    if state is None:
        # The driver has no SQLSTATE when the server never answered: no connection, or it broke.
        away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return DatabaseAway(str(error)) if away else error
    if state[:2] in _AWAY_CLASSES:
        return DatabaseAway(str(error))
    refusal = _BY_SQLSTATE.get(state)
    if refusal is None and isinstance(error, pg.IntegrityError):
        refusal = _BY_CONSTRAINT.get(error.diag.constraint_name or "", Refused)
    return refusal(error.diag.message_primary) if refusal else error
