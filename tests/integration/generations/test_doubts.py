"""Outcomes that nobody knows: looks recorded once, decisions with their act, and the search after a release."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.testing import ActivityEnvironment

from activities.evidence import EvidenceActivities, StoreActivities
from infra import generations, leases
from infra.db import Database, Query
from infra.generations import doubts
from infra.settings import Settings
from infra.storage import records, results
from infra.storage.store import BlobStore
from infra.storage.sweep import sweep
from tests.support.generations import Ways, order, request
from workflows.contracts import timeouts
from workflows.contracts.evidence import Finding, LateStep, Look, Resolve, Source, StoreAnswer, StoreQuestion
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import GenerationRequest, LeaseGrant, MarkUnknown, Release, Requeue
from workflows.contracts.hosts import StaleLease
from workflows.contracts.media import BlobRef
from workflows.contracts.states import CreditStatus, Status
from workflows.domain.placement.fleet import Given

STAYED = Failure(code=Code.OUTCOME_UNKNOWN, message="The outcome stayed unknown; nothing is charged.")
BROKE = Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
ACTS = Query(
    "acts",
    "select act, subject, reason, actor, data ->> 'decision' as decision from operator_act where act = 'resolve'",
)
EVENTS = Query("events", "select kind, data from event where task_id = %(task_id)s order by id")
BACK = Query("set_back", "update lease set offered_at = offered_at + interval '1 hour' where id = %(lease)s::uuid")
CONTENT = b"the picture that the host left"


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore.from_settings(Settings(home=tmp_path, signing_secret=SecretStr("s"), api_port=1))


class Doubted:
    """A generation whose host fetched the order and fell silent."""

    def __init__(self, made: GenerationRequest, lease: LeaseGrant) -> None:
        self.request = made
        self.lease = lease
        self.task_id = made.task_id


@pytest.fixture
async def doubted(ways: Ways, database: Database) -> Doubted:
    made = request(await ways.account())
    await ways.report()
    lease = (await ways.admit(made)).lease
    assert lease is not None
    async with database.single_statement() as tx:
        await leases.open_order(tx, order(made.task_id, lease))
    await mark(database, made.task_id)
    return Doubted(made, lease)


async def mark(database: Database, task_id: str) -> None:
    now = datetime.now(UTC)
    message = MarkUnknown(
        task_id=task_id,
        since=now,
        reason="silence",
        awaiting="the host",
        next_look_at=now + timedelta(seconds=5),
        resolve_by=now + timedelta(hours=1),
    )
    async with database.single_statement() as tx:
        await generations.mark_unknown(tx, message)


async def release(database: Database, task_id: str, failure: Failure = STAYED) -> None:
    message = Release(
        task_id=task_id,
        status=Status.FAILED,
        failure=failure,
        lease_id=None,
        actor="manifest:release_unknown" if failure is STAYED else "workflow",
    )
    async with database.single_statement() as tx:
        await generations.release(tx, message)


async def put(store: BlobStore, tmp_path: Path, content: bytes, sha256: str) -> None:
    path = tmp_path / "content"
    path.write_bytes(content)
    await store.put_file(path, sha256)
    path.unlink()  # the store may have linked it


def blob_of(content: bytes) -> BlobRef:
    return BlobRef(sha256=hashlib.sha256(content).hexdigest(), size=len(content), mime="image/png")


async def grant(database: Database, doubted: Doubted, *files: BlobRef) -> None:
    async with database.transaction() as tx:
        for index, file in enumerate(files):
            await records.claim_upload(
                tx, file, account_id=doubted.request.account_id, operation_id=doubted.request.operation_id
            )
            await results.note_grant(
                tx,
                task_id=doubted.task_id,
                lease_id=doubted.lease.lease_id,
                fence=doubted.lease.fence,
                index=index,
                file=file,
            )


async def ask_store(database: Database, store: BlobStore, doubted: Doubted, outputs: int = 1) -> StoreAnswer:
    question = StoreQuestion(task_id=doubted.task_id, lease_id=doubted.lease.lease_id, outputs=outputs)
    return await ActivityEnvironment().run(StoreActivities(database=database, store=store).look_in_store, question)


async def _granted(database: Database, question: StoreQuestion) -> dict[int, BlobRef]:
    async with database.read() as reader:
        return await results.granted(reader, task_id=question.task_id, lease_id=question.lease_id)


async def test_the_store_proves_an_end_only_with_every_result_whole(
    database: Database, store: BlobStore, doubted: Doubted, tmp_path: Path
) -> None:
    first, second = blob_of(CONTENT), blob_of(CONTENT + b"!")
    assert (await ask_store(database, store, doubted)).files == (), "nothing was granted"
    await grant(database, doubted, first, second)
    assert (await ask_store(database, store, doubted, 2)).files == (), "nothing is there"
    await put(store, tmp_path, CONTENT, first.sha256)
    assert (await ask_store(database, store, doubted, 2)).files == (), "one of two"
    await put(store, tmp_path, b"?" * second.size, second.sha256)
    assert (await ask_store(database, store, doubted, 2)).files == (), "right size, other bytes"
    await put(store, tmp_path, CONTENT + b"!", second.sha256)
    assert (await ask_store(database, store, doubted, 2)).files == (first, second)
    assert (await ask_store(database, store, doubted, 3)).files == (), "a third was asked for and never granted"


async def test_what_another_lease_left_is_no_evidence(
    database: Database, store: BlobStore, doubted: Doubted, tmp_path: Path
) -> None:
    await grant(database, doubted, blob_of(CONTENT))
    await put(store, tmp_path, CONTENT, blob_of(CONTENT).sha256)
    other = StoreQuestion(task_id=doubted.task_id, lease_id="00000000-0000-0000-0000-000000000000", outputs=1)
    assert await _granted(database, other) == {}


async def test_a_look_is_recorded_once(database: Database, ways: Ways, doubted: Doubted) -> None:
    look = Look(
        task_id=doubted.task_id,
        look_id="run:host:1",
        source=Source.HOST,
        asked="the journal",
        finding=Finding.NO_WORD,
        said="no answer came",
        lease_id=doubted.lease.lease_id,
        fence=doubted.lease.fence,
    )
    activities = EvidenceActivities(database=database)
    await activities.record_look(look)
    await activities.record_look(look)
    await activities.record_look(look.model_copy(update={"look_id": "run:store:1", "source": Source.STORE}))

    doubt = (await ways.record(doubted.request)).doubt
    assert doubt is not None
    assert doubt.last is not None
    assert (doubt.looks, doubt.last.source) == (2, Source.STORE)
    async with database.read() as reader:
        (shown,) = await doubts.unknown_now(reader, limit=10)
        assert await doubts.unknown_now(reader, limit=10, after=shown) == ()
    assert (shown.task_id, shown.looks, shown.last_said) == (doubted.task_id, 2, "no answer came")


@pytest.mark.parametrize("credits_paid", [None, 10])
async def test_a_decision_is_booked_with_its_act_and_repeats_itself(
    database: Database, ways: Ways, doubted: Doubted, credits_paid: int | None
) -> None:
    activities = EvidenceActivities(database=database)
    decision = Resolve(
        task_id=doubted.task_id,
        credits=credits_paid,
        status=Status.FAILED if credits_paid is None else Status.COMPLETED,
        failure=STAYED if credits_paid is None else None,
        reason="the vendor's log shows it",
        actor="operator:ana",
    )
    first = await activities.resolve(decision)
    assert await activities.resolve(decision) == first
    late = await activities.resolve(decision.model_copy(update={"actor": "operator:bob"}))
    assert late == first, "who comes too late is told the end that stands"
    assert first.credit_status is (CreditStatus.RELEASED if credits_paid is None else CreditStatus.SETTLED)
    async with database.read() as reader:
        acts = await reader.all(ACTS)
    assert [(act["act"], act["subject"], act["reason"], act["actor"]) for act in acts] == [
        ("resolve", doubted.task_id, decision.reason, "operator:ana")
    ]
    assert await ways.breaches() == []


async def test_a_release_without_an_outcome_begins_a_search_and_a_definite_one_does_not(
    database: Database, ways: Ways, doubted: Doubted
) -> None:
    activities = EvidenceActivities(database=database)
    await release(database, doubted.task_id)
    search = await activities.begin_late_look(LateStep(task_id=doubted.task_id))
    assert search is not None
    assert search.lease.lease_id == doubted.lease.lease_id
    record = await ways.record(doubted.request)
    assert record.finished_at is not None
    assert search.until - record.finished_at == timeouts.LATE_LOOK

    definite = request(await ways.account())
    await ways.admit(definite)
    await mark(database, definite.task_id)
    await release(database, definite.task_id, BROKE)
    assert await activities.begin_late_look(LateStep(task_id=definite.task_id)) is None


async def test_a_host_may_look_and_deliver_for_as_long_as_a_result_is_looked_for(
    database: Database, doubted: Doubted
) -> None:
    activities = EvidenceActivities(database=database)
    await release(database, doubted.task_id)
    look = order(doubted.task_id, doubted.lease, attach_only=True)
    lease: dict[str, Any] = {
        "task_id": doubted.task_id,
        "lease_id": doubted.lease.lease_id,
        "fence": doubted.lease.fence,
    }
    async with database.single_statement() as tx:
        assert isinstance(await leases.open_order(tx, look), GenerationRequest)
    async with database.single_statement() as tx:
        assert isinstance(await leases.open_order(tx, order(doubted.task_id, doubted.lease)), StaleLease)
    async with database.read() as reader:
        assert await leases.check_fence(reader, **lease) is None

    await activities.end_late_look(LateStep(task_id=doubted.task_id, ending="not_found"))
    async with database.single_statement() as tx:
        assert isinstance(await leases.open_order(tx, look), StaleLease), "so the host gives the run up"
    async with database.read() as reader:
        assert await leases.check_fence(reader, **lease) is not None


async def test_what_a_host_left_is_kept_for_as_long_as_a_result_is_looked_for(
    database: Database, store: BlobStore, doubted: Doubted, tmp_path: Path
) -> None:
    activities = EvidenceActivities(database=database)
    await grant(database, doubted, blob_of(CONTENT))
    await put(store, tmp_path, CONTENT, blob_of(CONTENT).sha256)
    await release(database, doubted.task_id)
    await sweep(database, store, claim_age=timedelta(0))
    assert await store.head(blob_of(CONTENT).sha256) == len(CONTENT)
    await activities.end_late_look(LateStep(task_id=doubted.task_id, ending="gone"))
    await sweep(database, store, claim_age=timedelta(0))
    assert await store.head(blob_of(CONTENT).sha256) is None


async def test_a_late_result_is_delivered_free_and_ends_the_search(
    database: Database, ways: Ways, doubted: Doubted
) -> None:
    activities = EvidenceActivities(database=database)
    before = await ways.balance(doubted.request.account_id)
    await release(database, doubted.task_id)
    await ways.keep(doubted.request)
    closing = await activities.deliver_late(LateStep(task_id=doubted.task_id))
    assert await activities.deliver_late(LateStep(task_id=doubted.task_id)) == closing
    assert (closing.status, closing.credit_status, closing.charged_credits) == (
        Status.COMPLETED,
        CreditStatus.RELEASED,
        0,
    )
    assert await activities.begin_late_look(LateStep(task_id=doubted.task_id)) is None
    record = await ways.record(doubted.request)
    assert record.doubt is not None
    assert (record.doubt.late_ending, record.doubt.late_until) == ("delivered", None)
    available, held, spent = await ways.balance(doubted.request.account_id)
    assert (available, held, spent) == (before[0] + 10, 0, 0)
    assert await ways.breaches() == []


async def test_leases_have_an_order_of_their_own_whatever_the_clock_said(
    database: Database, ways: Ways, doubted: Doubted
) -> None:
    """The first lease claims to be younger: a clock was set back between the two."""
    async with database.single_statement() as tx:
        await leases.requeue(tx, Requeue(task_id=doubted.task_id, lease=doubted.lease, never_ran=True))
    await ways.report(settled_fence=doubted.lease.fence)
    async with database.single_statement() as tx:
        assert await leases.offer(tx, Given(doubted.task_id, ("cpu-a-0",)))
    async with database.transaction() as tx:
        await tx.run(BACK, lease=doubted.lease.lease_id)
    lease: dict[str, Any] = {
        "task_id": doubted.task_id,
        "lease_id": doubted.lease.lease_id,
        "fence": doubted.lease.fence,
    }
    async with database.read() as reader:
        stale = await leases.check_fence(reader, **lease)
    assert stale is not None
    assert stale.reason == "a newer lease exists"
