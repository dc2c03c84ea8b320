"""Steps between admission and end, ends, and what people read of them."""

from datetime import UTC, datetime, timedelta

import pytest

from infra import generations, leases, outbox
from infra.db import Database, Query
from infra.db.errors import HoldExceeded, IllegalTransition, NoSuchRow
from tests.support.generations import Ways, order, request
from workflows.contracts.generation import Advance, CancelRequest, GenerationRequest, MarkUnknown
from workflows.contracts.states import CreditStatus, Phase, Status

EVENTS = Query("events", "select kind from event where task_id = %(task_id)s order by id")


@pytest.fixture
async def asked(ways: Ways) -> GenerationRequest:
    """An admitted request of an account with 100 credits, on a card."""
    await ways.report()
    made = request(await ways.account())
    await ways.admit(made)
    return made


async def kinds(database: Database, task_id: str) -> list[str]:
    async with database.read() as reader:
        return [row["kind"] for row in await reader.all(EVENTS, task_id=task_id)]


async def advance(database: Database, task_id: str, phase: Phase) -> None:
    async with database.single_statement() as tx:
        await generations.advance(tx, Advance(task_id=task_id, phase=phase))


def unknown(task_id: str, **changes: object) -> MarkUnknown:
    now = datetime.now(UTC)
    marking = MarkUnknown(
        task_id=task_id,
        since=now,
        reason="the host is silent",
        awaiting="the host's journal",
        next_look_at=now + timedelta(seconds=5),
        resolve_by=now + timedelta(hours=24),
    )
    return marking.model_copy(update=changes)


async def test_phases_only_rise_and_each_is_told_once(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    for phase in (Phase.RUNNING, Phase.PLACED, Phase.INSPECTING, Phase.RUNNING, Phase.INSPECTING, Phase.KEEPING):
        await advance(database, asked.task_id, phase)
    assert await kinds(database, asked.task_id) == ["held", "placed", "running", "inspecting", "keeping"]
    record = await ways.record(asked)
    assert record.phase is Phase.KEEPING
    assert record.started_at is not None
    assert await ways.breaches() == []


async def test_a_card_works_on_while_media_are_judged(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    await advance(database, asked.task_id, Phase.INSPECTING)
    assert (await ways.admit(request(asked.account_id))).lease is not None


async def test_finished_is_not_a_phase_to_advance_to(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    await advance(database, asked.task_id, Phase.FINISHED)
    assert (await ways.record(asked)).phase is Phase.PLACED


async def test_what_was_delivered_is_paid_and_the_rest_returns(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    await ways.keep(asked)
    closing = await ways.settle(asked.task_id, 7)
    assert (closing.status, closing.credit_status) == (Status.COMPLETED, CreditStatus.SETTLED)
    assert closing.balance_credits == 93
    assert await ways.balance(asked.account_id) == (93, 0, 7)
    await ways.admit(request(asked.account_id))
    assert await ways.settle(asked.task_id, 7) == closing, "the answer of the first, not of today"
    record = await ways.record(asked)
    assert (record.charged_credits, record.phase) == (7, Phase.FINISHED)
    assert [(a.index, a.width, a.status) for a in record.artifacts] == [(0, 128, Status.COMPLETED)]
    assert await kinds(database, asked.task_id) == ["held", "placed", "kept", "settled"]
    assert await ways.breaches() == []


async def test_more_than_the_hold_is_refused(ways: Ways, asked: GenerationRequest) -> None:
    with pytest.raises(HoldExceeded):
        await ways.settle(asked.task_id, 11)
    assert await ways.balance(asked.account_id) == (90, 10, 0)


@pytest.mark.parametrize("end", [Status.FAILED, Status.CANCELED, Status.EXPIRED])
async def test_a_release_gives_all_back(ways: Ways, asked: GenerationRequest, end: Status) -> None:
    closing = await ways.release(asked.task_id, end)
    assert (closing.status, closing.credit_status) == (end, CreditStatus.RELEASED)
    assert await ways.release(asked.task_id, Status.FAILED) == closing, "the first end stands"
    assert await ways.settle(asked.task_id) == closing, "also for whoever would settle"
    assert await ways.balance(asked.account_id) == (100, 0, 0)
    assert (await ways.record(asked)).failure is not None
    assert await ways.breaches() == []


async def test_a_release_takes_a_waiting_one_out_of_the_queue(ways: Ways, asked: GenerationRequest) -> None:
    waiting = request(asked.account_id)
    behind = request(asked.account_id)
    await ways.admit(waiting)
    await ways.admit(behind)
    assert (await ways.record(behind)).queue_ahead == 1
    await ways.release(waiting.task_id, Status.CANCELED)
    assert (await ways.record(behind)).queue_ahead == 0
    assert await ways.breaches() == []


async def test_a_release_is_no_completion(ways: Ways, asked: GenerationRequest) -> None:
    with pytest.raises(IllegalTransition):
        await ways.release(asked.task_id, Status.COMPLETED)


async def test_nothing_happens_to_what_is_not_there(ways: Ways) -> None:
    with pytest.raises(NoSuchRow):
        await ways.settle("gen_none")
    with pytest.raises(NoSuchRow):
        await ways.release("gen_none")


async def test_unknown_is_shown_and_keeps_the_hold(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    first = unknown(asked.task_id)
    async with database.single_statement() as tx:
        await generations.mark_unknown(tx, first)
    record = await ways.record(asked)
    assert (record.phase, record.credit_status) == (Phase.RECONCILING, CreditStatus.UNKNOWN)
    assert (record.unknown_since, record.resolve_by) == (first.since, first.resolve_by)
    later = unknown(asked.task_id, awaiting="an operator", raised=True)
    for _ in range(2):
        async with database.single_statement() as tx:
            await generations.mark_unknown(tx, later)
    record = await ways.record(asked)
    assert (record.unknown_since, record.awaiting, record.raised) == (first.since, "an operator", True)
    assert await kinds(database, asked.task_id) == ["held", "placed", "unknown", "unknown"]
    assert await ways.balance(asked.account_id) == (90, 10, 0)
    assert await ways.breaches() == []
    await ways.release(asked.task_id)
    async with database.single_statement() as tx:
        await generations.mark_unknown(tx, later)
    assert (await ways.record(asked)).credit_status is CreditStatus.RELEASED


async def test_evidence_ends_unknown_with_a_settlement(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    async with database.single_statement() as tx:
        await generations.mark_unknown(tx, unknown(asked.task_id))
    await advance(database, asked.task_id, Phase.INSPECTING)
    async with database.single_statement() as tx:
        await generations.mark_unknown(tx, unknown(asked.task_id))
    assert (await ways.record(asked)).phase is Phase.INSPECTING, "evidence led on; silence before it is old news"
    await ways.keep(asked)
    assert (await ways.settle(asked.task_id)).credit_status is CreditStatus.SETTLED
    assert await ways.breaches() == []


async def test_the_first_to_cancel_is_kept(ways: Ways, database: Database, asked: GenerationRequest) -> None:
    for reason in ("changed my mind", "impatient"):
        async with database.single_statement() as tx:
            await generations.request_cancel(tx, asked.task_id, CancelRequest(reason=reason, actor="member:m"))
    cancel = (await ways.record(asked)).cancel
    assert cancel is not None
    assert (cancel.reason, cancel.actor) == ("changed my mind", "member:m")
    assert await kinds(database, asked.task_id) == ["held", "placed", "cancel_requested"]


async def test_keeping_twice_is_once_and_never_something_else(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    await ways.keep(asked)
    await ways.keep(asked)
    with pytest.raises(generations.ArtifactContradiction):
        await ways.keep(asked, "other bytes")
    stranger = asked.model_copy(update={"account_id": await ways.account()})
    with pytest.raises(generations.ArtifactContradiction):
        await ways.keep(stranger)
    async with database.read() as reader:
        kept = await generations.find_artifact(reader, account_id=asked.account_id, task_id=asked.task_id, index=0)
        foreign = await generations.find_artifact(
            reader, account_id=stranger.account_id, task_id=asked.task_id, index=0
        )
    assert kept is not None
    assert timedelta(days=29) < kept.expires_at - datetime.now(UTC) <= timedelta(days=30)
    assert kept.status is Status.PENDING, "kept, not yet paid: not to be delivered"
    assert foreign is None


async def test_a_canary_makes_its_model_ready_on_its_card_and_agent(ways: Ways, database: Database) -> None:
    await ways.report()
    canary = request("house", price=0, is_canary=True)
    answer = await ways.admit(canary)
    assert answer.lease is not None
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(canary.task_id, answer.lease))
    await ways.keep(canary)
    await ways.settle(canary.task_id, 0)
    async with database.read() as reader:
        assert [(r.model_id, r.digest) for r in await generations.readiness(reader)] == [
            (canary.model.model_id, canary.model.digest)
        ]
    await ways.report(boot_id="boot-2", settled_fence=1)
    async with database.read() as reader:
        assert await generations.readiness(reader) == (), "a new agent has proven nothing yet"


async def test_an_end_is_told_once(ways: Ways, database: Database, asked: GenerationRequest) -> None:
    await ways.release(asked.task_id)
    await ways.release(asked.task_id)
    async with database.transaction() as tx:
        (row,) = await outbox.take(tx, 10)
        assert (row.topic, row.key) == (outbox.Topic.CLOSED, asked.task_id)
        assert row.payload["credit_status"] == "released"
        async with database.transaction() as other:
            assert await outbox.take(other, 10) == (), "a second relay doesn't deliver it too"
        await outbox.mark_failed(tx, row.id, "nobody listens")
    async with database.transaction() as tx:
        assert await outbox.take(tx, 10) == (), "it is tried again later, not at once"


async def test_open_holds_are_found_for_the_sweep(
    ways: Ways, database: Database, asked: GenerationRequest
) -> None:
    async def found(
        older_than: timedelta = timedelta(0), after: generations.OpenGeneration | None = None
    ) -> list[str]:
        async with database.read() as reader:
            rows = await generations.open_generations(reader, older_than=older_than, after=after, limit=9)
        return [row.request.task_id for row in rows]

    other = request(asked.account_id)
    await ways.admit(other)
    assert await found() == [asked.task_id, other.task_id]
    assert await found(older_than=timedelta(minutes=1)) == []
    async with database.read() as reader:
        (first,) = await generations.open_generations(reader, older_than=timedelta(0), limit=1)
        assert await generations.is_open(reader, asked.task_id)
        assert await generations.admitted(reader, [asked.task_id, "gen_stranger"]) == {asked.task_id}
    assert (first.request, first.cancel) == (asked, None)
    assert await found(after=first) == [other.task_id]
    async with database.transaction() as tx:
        await generations.request_cancel(tx, other.task_id, CancelRequest(reason="changed my mind", actor="ana"))
    await ways.release(asked.task_id)
    async with database.read() as reader:
        (left,) = await generations.open_generations(reader, older_than=timedelta(0), limit=9)
        assert not await generations.is_open(reader, asked.task_id)
    assert left.cancel == CancelRequest(reason="changed my mind", actor="ana")
