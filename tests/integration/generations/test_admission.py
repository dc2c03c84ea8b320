"""What admission answers, and what it leaves behind."""

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo

import psycopg
import pytest

from infra import generations, ledger
from infra.db import Database
from infra.generations import admission
from tests.support.eventually import eventually
from tests.support.generations import SNAPSHOT, Ways, request
from workflows.contracts.failures import Code
from workflows.contracts.states import AdmissionOutcome, CreditStatus, Phase, Status


async def test_it_holds_the_price_and_queues(ways: Ways) -> None:
    account = await ways.account(100)
    asked = request(account, price=30)
    answer = await ways.admit(asked)
    assert (answer.outcome, answer.credit_status) == (AdmissionOutcome.HELD, CreditStatus.HELD)
    assert (answer.balance_credits, answer.fingerprint, answer.lease) == (70, asked.fingerprint, None)
    record = await ways.record(asked)
    assert (record.phase, record.status, record.queue_ahead) == (Phase.WAITING, Status.PENDING, 0)
    assert record.request == asked
    assert await ways.balance(account) == (70, 30, 0)
    assert await ways.breaches() == []


async def test_an_idle_card_is_given_at_once(ways: Ways) -> None:
    await ways.report()
    asked = request(await ways.account())
    answer = await ways.admit(asked)
    assert answer.lease is not None
    assert (answer.lease.card_uuid, answer.lease.fence, answer.lease.accepted) == ("cpu-a-0", 1, True)
    record = await ways.record(asked)
    assert (record.phase, record.card_label, record.queue_ahead) == (Phase.PLACED, "CPU-A-0", None)
    assert await ways.admit(asked) == answer
    assert await ways.breaches() == []


async def test_nobody_overtakes_who_waits(ways: Ways) -> None:
    account = await ways.account()
    await ways.admit(request(account))
    await ways.report()
    assert (await ways.admit(request(account))).lease is None, "the card is the first one's"


@pytest.mark.parametrize(
    "changes",
    [
        {"capability": "image_edit"},
        {"engine": "comfyui"},
        {"vram_budget_mib": 5000},
    ],
)
async def test_a_card_that_does_not_fit_is_left(ways: Ways, changes: dict[str, object]) -> None:
    await ways.report(vram_total_mib=4096)
    answer = await ways.admit(request(await ways.account(), model=SNAPSHOT.model_copy(update=changes)))
    assert answer.lease is None


async def test_the_smallest_card_that_fits_is_taken(ways: Ways) -> None:
    await ways.report("big", vram_total_mib=80_000)
    await ways.report("small", vram_total_mib=8_000)
    answer = await ways.admit(request(await ways.account()))
    assert answer.lease is not None
    assert answer.lease.card_uuid == "small"


async def test_a_free_request_holds_nothing_and_is_booked_all_the_same(ways: Ways) -> None:
    account = await ways.account(0)
    asked = request(account, price=0)
    assert (await ways.admit(asked)).outcome is AdmissionOutcome.HELD
    await ways.keep(asked)
    await ways.settle(asked.task_id, 0)
    assert await ways.breaches() == []


async def test_who_gave_up_holds_nothing(ways: Ways) -> None:
    account = await ways.account()
    late = request(account, admit_by=datetime.now(UTC) - timedelta(milliseconds=1))
    answer = await ways.admit(late)
    assert answer.refusal is not None
    assert answer.refusal.code is Code.ADMISSION_LAPSED
    assert await ways.balance(account) == (100, 0, 0)


async def test_the_wait_for_the_account_counts(ways: Ways, database: Database, conninfo: str) -> None:
    """A request that was in time when it arrived and late when it got the lock takes nothing."""
    account = await ways.account()
    other = await psycopg.AsyncConnection.connect(conninfo)
    async with other:
        await other.execute("select from holdfast.account where id = %s for no key update", (account,))
        asked = request(account, admit_by=datetime.now(UTC) + timedelta(milliseconds=150))

        async def give_way() -> None:
            await eventually(lambda: datetime.now(UTC) > asked.admit_by)
            await other.rollback()

        answer, _ = await asyncio.gather(ways.admit(asked), give_way())
    assert answer.refusal is not None
    assert answer.refusal.code is Code.ADMISSION_LAPSED


async def test_a_frozen_account_is_refused(ways: Ways, database: Database) -> None:
    account = await ways.account()
    async with database.transaction() as tx:
        await ledger.freeze(tx, account_id=account, frozen=True, reason="test", actor="operator:test")
    answer = await ways.admit(request(account, "op"))
    assert answer.refusal is not None
    assert answer.refusal.code is Code.ACCOUNT_FROZEN


@pytest.mark.parametrize("account_id", ["nobody", "revenue", "issuance"])
async def test_only_accounts_that_can_pay_are_charged(ways: Ways, account_id: str) -> None:
    answer = await ways.admit(request(account_id))
    assert answer.refusal is not None
    assert answer.refusal.code is Code.FORBIDDEN


async def test_too_many_in_flight(ways: Ways) -> None:
    account = await ways.account()
    first = await ways.admit(request(account), in_flight_max=1)
    answer = await ways.admit(request(account), in_flight_max=1)
    assert answer.refusal is not None
    assert (answer.refusal.code, answer.refusal.retry_after_s) == (Code.QUOTA_EXCEEDED, 5)
    await ways.release(first.task_id)
    assert (await ways.admit(request(account), in_flight_max=1)).outcome is AdmissionOutcome.HELD


async def test_a_refusal_stands_and_the_next_attempt_is_judged_anew(ways: Ways, database: Database) -> None:
    account = await ways.account(5)
    asked = request(account, "op")
    refused = await ways.admit(asked)
    assert refused.refusal is not None
    assert refused.refusal.message == "This costs 10 credits; 5 are available."
    async with database.transaction() as tx:
        await ledger.grant(tx, account_id=account, credits=50, reason="t", actor="t", key="top-up")
    assert await ways.admit(asked) == refused, "a late delivery of the refused attempt is not a new attempt"
    again = asked.model_copy(update={"attempt": 2, "fingerprint": "e" * 64})
    held = await ways.admit(again)
    assert (held.outcome, held.fingerprint) == (AdmissionOutcome.HELD, "e" * 64)
    assert (await ways.admit(asked)).outcome is AdmissionOutcome.HELD, "now the operation has its generation"
    assert await ways.balance(account) == (45, 10, 0)
    assert await ways.breaches() == []


async def test_another_body_hears_whose_operation_it_is(ways: Ways) -> None:
    asked = request(await ways.account(), "op")
    await ways.admit(asked)
    other = await ways.admit(asked.model_copy(update={"fingerprint": "0" * 64, "price_credits": 99}))
    assert (other.outcome, other.fingerprint) == (AdmissionOutcome.HELD, asked.fingerprint)


async def test_a_finished_operation_is_never_run_again(ways: Ways) -> None:
    account = await ways.account()
    asked = request(account, "op")
    await ways.admit(asked)
    await ways.keep(asked)
    await ways.settle(asked.task_id)
    answer = await ways.admit(asked)
    assert (answer.outcome, answer.credit_status) == (AdmissionOutcome.FINISHED, CreditStatus.SETTLED)
    assert await ways.balance(account) == (90, 0, 10)


async def test_the_same_operation_id_of_another_account_is_another_operation(ways: Ways) -> None:
    one, two = request(await ways.account(), "op"), request(await ways.account(), "op")
    assert (await ways.admit(one)).task_id != (await ways.admit(two)).task_id
    async with ways.database.read() as reader:
        assert await generations.find(reader, account_id=two.account_id, task_id=one.task_id) is None


async def test_preflight_says_what_admission_would(ways: Ways, database: Database) -> None:
    account = await ways.account(15)
    first = request(account, "first")
    await ways.admit(first)

    async def look(operation_id: str, account_id: str = account) -> generations.Preflight:
        async with database.read() as reader:
            return await generations.preflight(
                reader, account_id=account_id, operation_id=operation_id, model_id=SNAPSHOT.model_id
            )

    seen = await look("first")
    assert (seen.available_credits, seen.in_flight, seen.queue_length) == (5, 1, 1)
    assert seen.existing is not None
    assert (seen.existing.fingerprint, seen.existing.attempt) == (first.fingerprint, 1)
    assert (seen.existing.fields, seen.existing.generation_status) == (first.fields, Status.PENDING)

    refused = await ways.admit(request(account, "second"))
    after = await look("second")
    assert after.refusal(price_credits=10, in_flight_max=100, queue_max=200) == refused.refusal
    assert after.existing is not None
    assert (after.existing.attempt, after.existing.generation_status) == (2, None)
    assert (await look("third")).existing is None
    assert (await look("x", "nobody")).available_credits == 0


async def test_a_ticket_wakes_placement_where_a_card_is_free(ways: Ways, database: Database) -> None:
    account = await ways.account()
    async with database.session() as session:
        await session.listen("holdfast_place")
        await ways.admit(request(account))
        assert await session.wait(timedelta(0)) == frozenset(), "without a card there is nothing to decide"
        await ways.report()
        assert await session.wait(timedelta(seconds=20)) == {"card:cpu-a-0"}, "a card came"
        second = await ways.admit(request(account))
        assert second.lease is None, "somebody waits for that card"
        assert await session.wait(timedelta(seconds=20)) == {f"ticket:{second.task_id}"}


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(hours=-2), timedelta(hours=2)])
async def test_preflight_tells_how_far_the_clocks_are_apart(
    ways: Ways, database: Database, monkeypatch: pytest.MonkeyPatch, behind: timedelta
) -> None:
    """Who makes a request allows for it, so that `admit_by` means the same to the database."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Shifted":
            return cls.fromtimestamp(datetime.now(tz).timestamp(), tz) - behind

    monkeypatch.setattr(admission, "datetime", Shifted)
    account = await ways.account()
    async with database.read() as reader:
        known = await generations.preflight(reader, account_id=account, operation_id="x", model_id="m")
    assert abs(known.clock_ahead - behind) < timedelta(minutes=1)
    assert behind or not known.clock_ahead, "clocks that agree are left alone"
    late = datetime.now(UTC) - behind
    answer = await ways.admit(request(account, admit_by=late + known.clock_ahead + timedelta(seconds=30)))
    assert answer.outcome is AdmissionOutcome.HELD
