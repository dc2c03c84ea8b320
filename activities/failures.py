"""What an error below means to Temporal: tried again, or shown at once. The one place that decides it."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from infra.db import DatabaseAway, DatabaseBusy, DatabaseTrouble

DATABASE_AWAY = "database_away"
DATABASE_BUSY = "database_busy"
DATABASE_REFUSED = "database_refused"


@contextmanager
def told_to_temporal() -> Iterator[None]:
    """Turn the database's nouns into failures with a verdict.

    Raises:
        ApplicationError: `database_away` and `database_busy` are tried again and not logged as faults.
            `database_refused` can't be cured by a retry: the workflow's task fails in plain sight, and
            the workflow, with its hold, stays open until the code is mended.
    """
    try:
        yield
    except DatabaseBusy as error:
        raise ApplicationError(str(error), type=DATABASE_BUSY, category=ApplicationErrorCategory.BENIGN) from error
    except DatabaseAway as error:
        raise ApplicationError(str(error), type=DATABASE_AWAY, category=ApplicationErrorCategory.BENIGN) from error
    except DatabaseTrouble as error:
        message = f"{type(error).__name__}: {error}"
        raise ApplicationError(message, type=DATABASE_REFUSED, non_retryable=True) from error
