"""What operators look at."""

from infra.db import Reader, load
from infra.db.errors import NoSuchRow
from infra.operators.records import Act, Brief, OpenFinding, Payer, Story, SweepStanding

_QUERIES = load("infra.operators")
FOUND_MAX = 50
ENDED_MAX = 100
_LAST = 2**63 - 1
Acts = tuple[Act, ...]


async def is_operator(reader: Reader, member_id: str) -> bool:
    """Whether this member operates."""
    return bool(await reader.value(_QUERIES["is_operator"], member_id=member_id))


async def find(
    reader: Reader,
    *,
    task_id: str | None = None,
    operation_id: str | None = None,
    hold: int | None = None,
    account_id: str | None = None,
    limit: int = FOUND_MAX,
) -> tuple[Brief, ...]:
    """Generations by what an operator has in hand, the newest first; the first given looks, the others narrow.

    By a hold or a task there is one at most, and of an account the latest `limit` are shown.
    """
    if task_id is not None:
        rows = await reader.all(_QUERIES["by_task"], task_id=task_id)
    elif hold is not None:
        rows = await reader.all(_QUERIES["by_hold"], hold=hold)
    elif operation_id is not None:
        rows = await reader.all(
            _QUERIES["by_operation"], operation_id=operation_id, account_id=account_id, limit=limit
        )
    else:
        rows = await reader.all(_QUERIES["by_account"], account_id=account_id, limit=limit)
    found = (Brief.model_validate(row) for row in rows)
    return tuple(
        one
        for one in found
        if (account_id is None or one.account_id == account_id)
        and (operation_id is None or one.operation_id == operation_id)
        and (hold is None or one.hold == hold)
    )


async def brief(reader: Reader, task_id: str) -> Brief:
    """One generation.

    Raises:
        NoSuchRow: There is none.
    """
    found = await find(reader, task_id=task_id)
    if not found:
        raise NoSuchRow(f"no generation {task_id}")
    return found[0]


async def story(reader: Reader, task_id: str) -> Story:
    """Everything that the database knows of one generation.

    Raises:
        NoSuchRow: There is none.
    """
    row = await reader.one(_QUERIES["story"], task_id=task_id)
    if row is None:
        raise NoSuchRow(f"no generation {task_id}")
    return Story.model_validate(row)


async def payer(reader: Reader, account_id: str) -> Payer:
    """An account that pays.

    Raises:
        NoSuchRow: There is none.
    """
    row = await reader.one(_QUERIES["payer"], account_id=account_id)
    if row is None:
        raise NoSuchRow(f"no account {account_id} that pays")
    return Payer.model_validate(row)


async def acts(
    reader: Reader, *, subject: str | None = None, before: int | None = None, limit: int = FOUND_MAX
) -> Acts:
    """What operators did, the latest first."""
    before = _LAST if before is None else before
    if subject is None:
        rows = await reader.all(_QUERIES["acts"], before=before, limit=limit)
    else:
        rows = await reader.all(_QUERIES["acts_of"], subject=subject, before=before, limit=limit)
    return tuple(Act.model_validate(row) for row in rows)


async def findings(reader: Reader) -> SweepStanding:
    """What sweeps found, and when they looked."""
    rows = [OpenFinding.model_validate(row) for row in await reader.all(_QUERIES["findings"], limit=ENDED_MAX)]
    return SweepStanding(
        looks=[dict(row) for row in await reader.all(_QUERIES["looks"])],
        open=tuple(row for row in rows if row.ended_at is None),
        ended=tuple(row for row in rows if row.ended_at is not None),
    )
