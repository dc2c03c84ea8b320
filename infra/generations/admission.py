"""Taking a request in: hold the price and, where a card is idle, place it; or refuse."""

import json
from datetime import UTC, datetime, timedelta

from infra.accounts import Member
from infra.accounts.keys import ApiKey, KeyProof
from infra.db import Reader, Row, Tx, load
from infra.generations.records import Arrival, ExistingOperation, Preflight, refusal
from infra.limits import LimitStanding
from infra.settings import Settings
from workflows.contracts import ids, timeouts
from workflows.contracts.failures import Code
from workflows.contracts.generation import Admission, GenerationRequest, LeaseGrant
from workflows.contracts.states import AdmissionOutcome, CreditStatus, Status

_QUERIES = load(__package__)

IN_FLIGHT_MAX: int = Settings.model_fields["in_flight_max"].default
"""Open generations of one account, unless the caller's settings say otherwise."""
CLOCKS_AGREE = timedelta(seconds=1)
"""Less is the way from the database on a busy process, and nothing to allow for."""


async def admit(
    tx: Tx,
    request: GenerationRequest,
    *,
    in_flight_max: int = IN_FLIGHT_MAX,
    duplicate_window_s: float = 0.0,
) -> Admission:
    """Hold the price; one statement. The same request gives the same answer for ever.

    `held` and `finished` carry the fingerprint of the body that was admitted: a caller with another body has
    a conflict. `refused` held nothing; the next try is `attempt + 1`, and may have another body. The first
    reason of these is given: `admission_lapsed`, `account_frozen`, `possible_duplicate` (of the same body under
    another id within `duplicate_window_s`; `duplicate_of` names it), `insufficient_credits`, `quota_exceeded`,
    `queue_full`; `forbidden` for an account that doesn't exist or can't pay.

    Raises:
        DatabaseBusy: the account's row was locked for too long; nothing was held.
    """
    answer = await tx.value(
        _QUERIES["admit"],
        request=request.model_dump_json(),
        in_flight_max=in_flight_max,
        fresh=timeouts.REPORT_FRESH,
        offer=timeouts.OFFER,
        duplicates=timedelta(seconds=duplicate_window_s),
    )
    outcome = AdmissionOutcome(answer["outcome"])
    if outcome is AdmissionOutcome.REFUSED:
        figures = dict(answer["refusal"])
        return Admission(
            task_id=request.task_id,
            outcome=outcome,
            fingerprint=answer["fingerprint"],
            balance_credits=figures.get("available"),
            duplicate_of=figures.get("task_id"),
            refusal=refusal(Code(figures.pop("code")), **figures),
        )
    lease = answer.get("lease")
    return Admission(
        task_id=request.task_id,
        outcome=outcome,
        fingerprint=answer["fingerprint"],
        credit_status=CreditStatus(answer["credit_status"]),
        balance_credits=answer["balance"],
        lease=LeaseGrant.model_validate(lease) if lease else None,
    )


async def answer_duplicate(
    tx: Tx, *, account_id: str, operation_id: str, fingerprint: str, fields: dict[str, str], duplicate_of: str
) -> None:
    """Keep that an operation id was answered with another's task, as an admission does. One statement."""
    await tx.run(
        _QUERIES["answer_duplicate"],
        account_id=account_id,
        operation_id=operation_id,
        task_id=ids.task_id(account_id, operation_id),
        fingerprint=fingerprint,
        fields=json.dumps(fields),
        duplicate_of=duplicate_of,
    )


async def preflight(
    reader: Reader,
    *,
    account_id: str,
    operation_id: str,
    model_id: str,
    key_id: str | None = None,
    duplicate_window_s: float = 0.0,
) -> Preflight:
    """Balance, limits and what is known of the operation id; one query, no lock, no promise."""
    row = await reader.one(
        _QUERIES["preflight"],
        account_id=account_id,
        operation_id=operation_id,
        model_id=model_id,
        key_id=key_id,
        duplicates=timedelta(seconds=duplicate_window_s),
    )
    if row is None:
        raise AssertionError("a select from one row gives one row")
    return _preflight(row, row["queue_length"])


async def arrival(
    reader: Reader,
    *,
    member_id: str | None = None,
    key: KeyProof | None = None,
    operation_id: str,
    duplicate_window_s: float = 0.0,
) -> Arrival | None:
    """A session's member, or a key, with `preflight` for its account, in one query; None when there is none."""
    row = await reader.one(
        _QUERIES["arrival"],
        member_id=member_id,
        key_id=key.key_id if key else None,
        secret_sha256=key.secret_sha256 if key else None,
        operation_id=operation_id,
        duplicates=timedelta(seconds=duplicate_window_s),
    )
    if row is None:
        return None
    who = Member.model_validate(row) if key is None else ApiKey.model_validate(row)
    return Arrival(who=who, queues=row["queues"], of_no_model=_preflight(row, 0))


def _preflight(row: Row, queue_length: int) -> Preflight:
    existing = None
    if row["task_id"] is not None:
        existing = ExistingOperation(
            fingerprint=row["fingerprint"],
            fields=row["fields"],
            task_id=row["task_id"],
            attempt=row["attempt"],
            generation_status=Status(row["generation_status"]) if row["generation_status"] else None,
            duplicate_of=row["duplicate_of"],
        )
    return Preflight(
        available_credits=row["available_credits"],
        frozen=row["frozen"],
        in_flight=row["in_flight"],
        queue_length=queue_length,
        existing=existing,
        recent=row["recent"],
        clock_ahead=_clock_ahead(row["at"]),
        limits=tuple(LimitStanding.model_validate(standing) for standing in row["limits"]),
        at=row["at"],
    )


def _clock_ahead(at: datetime) -> timedelta:
    ahead = at - datetime.now(UTC)
    return ahead if abs(ahead) > CLOCKS_AGREE else timedelta(0)
