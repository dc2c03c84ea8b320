"""One lease's run against every way in which an engine, an API and a disk let it down."""

import asyncio
import hashlib
import time
from pathlib import Path

import pytest

from activities.card_desk import CardDesk
from activities.card_run import KILLS_MAX, CardRun
from activities.card_supply import TryAgain
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.engines.states import RunState
from infra.hosts.journal import JournalUnwritable, Step
from tests.integration.hosts.conftest import CARD, MakeDesk
from tests.support.engines import upscale
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi, order
from workflows.contracts.failures import Code
from workflows.contracts.generation import RunOrder, RunOutcome
from workflows.contracts.states import RunVerdict


def engine_of(desk: CardDesk) -> FakeEngine:
    """The desk's engine, for counting."""
    assert isinstance(desk.keeper, FakeEngine)
    return desk.keeper


async def run(desk: CardDesk, ordered: RunOrder | None = None) -> RunOutcome:
    """One try to its end."""
    async with asyncio.timeout(20):
        return await CardRun(desk, ordered or order(), scheduled_at=time.time()).course()


async def running(desk: CardDesk, ordered: RunOrder | None = None) -> tuple[CardRun, "asyncio.Task[RunOutcome]"]:
    """A try whose engine is at work."""
    card_run = CardRun(desk, ordered or order(), scheduled_at=time.time())
    task = asyncio.create_task(card_run.course())
    await eventually(lambda: card_run.fraction > 0 or task.done(), what="progress")
    return card_run, task


async def test_a_good_run_is_stored_journaled_and_tidied(
    make_desk: MakeDesk, api: InternalApi, tmp_path: Path
) -> None:
    desk = make_desk()
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.FINISHED
    (blob,) = outcome.files
    assert hashlib.sha256(api.stored[blob.sha256]).hexdigest() == blob.sha256
    entry = desk.journal.find(CARD, "gen_a", 1)
    assert entry is not None
    assert entry.outcome == outcome
    assert desk.journal.settled_fence(CARD) == 1
    assert desk.running is None
    assert (await desk.engine.attach("gen_a-1")).state is RunState.ABSENT
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_repeated_step_gets_the_same_answer_and_runs_nothing(
    make_desk: MakeDesk, api: InternalApi
) -> None:
    desk = make_desk()
    outcome = await run(desk)
    assert await run(desk) == await run(desk, order(attach_only=True)) == outcome
    assert (engine_of(desk).submitted, api.uploads, len(api.orders)) == (1, 1, 1)


async def test_the_lease_is_journaled_before_its_order_is_fetched(make_desk: MakeDesk, api: InternalApi) -> None:
    """The fetch counts at the API; its card would stay taken for good if its host forgot that it had asked."""
    desk = make_desk()
    api.away = True
    with pytest.raises(TryAgain):
        await run(desk)
    entry = desk.journal.find(CARD, "gen_a", 1)
    assert entry is not None
    assert entry.step is Step.ASKED
    assert desk.journal.settled_fence(CARD) == 0
    assert engine_of(desk).submitted == 0
    api.away = False
    assert (await run(desk)).verdict is RunVerdict.FINISHED


@pytest.mark.parametrize(("write", "orders"), [("begin", 0), ("intend", 1)])
async def test_a_journal_that_cant_be_written_refuses_before_anything_runs(
    make_desk: MakeDesk, api: InternalApi, monkeypatch: pytest.MonkeyPatch, write: str, orders: int
) -> None:
    desk = make_desk()

    def full(*_: object, **__: object) -> None:
        raise JournalUnwritable("full")

    monkeypatch.setattr(desk.journal, write, full)
    outcome = await run(desk)
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert outcome.failure is not None
    assert outcome.failure.code is Code.SERVICE_UNAVAILABLE
    assert (len(api.orders), engine_of(desk).submitted) == (orders, 0)


async def test_an_agent_that_dies_leaves_a_run_that_the_next_one_attaches_to(
    make_desk: MakeDesk, api: InternalApi
) -> None:
    first = make_desk(Script.SLOW)
    _, task = await running(first)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    second = make_desk(engine=engine_of(first))
    outcome = await run(second)
    assert outcome.verdict is RunVerdict.FINISHED
    # Nothing was even offered to the engine again: not every engine would notice.
    assert (engine_of(second).submitted, len(api.orders)) == (1, 1)


async def test_a_new_lease_of_the_same_task_takes_the_earlier_run_over(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.SLOW)
    _, task = await running(desk)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    outcome = await run(desk, order(fence=2))
    assert outcome.verdict is RunVerdict.FINISHED
    assert engine_of(desk).submitted == 1
    entry = desk.journal.find(CARD, "gen_a", 2)
    assert entry is not None
    assert entry.run_id == "gen_a-1"


async def test_a_lost_acknowledgement_is_no_second_run(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.LOSE_ACK)
    assert (await run(desk)).verdict is RunVerdict.FINISHED
    assert engine_of(desk).submitted == 1


@pytest.mark.parametrize("script", [Script.CRASH_MID_RUN, Script.CRASH_ON_SUBMIT, Script.HANG])
async def test_an_engine_that_dies_or_hangs_once_costs_one_more_run(make_desk: MakeDesk, script: Script) -> None:
    desk = make_desk(script, Script.GOOD)
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.FINISHED
    assert desk.journal.of_task(CARD, "gen_a")[0].crashes <= 1


@pytest.mark.parametrize("script", [Script.CRASH_MID_RUN, Script.HANG, Script.LOSE_HISTORY])
async def test_an_engine_that_dies_each_time_ends_as_failed(make_desk: MakeDesk, script: Script) -> None:
    desk = make_desk(script)
    outcome = await run(desk)
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, True)
    assert outcome.failure is not None
    assert outcome.failure.code is Code.UPSTREAM_FAILED
    assert engine_of(desk).submitted == 2
    assert desk.journal.settled_fence(CARD) == 1


async def test_a_job_that_kills_its_engine_is_parked_for_good(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.CRASH_MID_RUN)
    await run(desk, order(fence=1))
    outcome = await run(desk, order(fence=2))
    assert outcome.verdict is RunVerdict.FAILED
    assert f"{KILLS_MAX} engines died" in outcome.evidence
    assert engine_of(desk).submitted == KILLS_MAX
    assert (await run(desk, order(fence=3, task="gen_b"))).verdict is RunVerdict.FAILED


async def test_out_of_memory_is_the_engines_own_verdict(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.OUT_OF_MEMORY)
    outcome = await run(desk)
    assert outcome.failure is not None
    assert outcome.failure.code is Code.OUT_OF_MEMORY
    assert engine_of(desk).submitted == 1


async def test_an_engine_that_falls_silent_makes_it_unknown_and_keeps_the_card(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.FALL_SILENT)
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.UNKNOWN
    assert desk.journal.settled_fence(CARD) == 0
    assert [entry.fence for entry in desk.journal.open_runs(CARD)] == [1]


async def test_evidence_that_comes_later_resolves_it(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.FALL_SILENT)
    assert (await run(desk)).verdict is RunVerdict.UNKNOWN
    await desk.keeper.restart()
    outcome = await run(desk, order(attach_only=True))
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, True)
    assert engine_of(desk).submitted == 1
    assert desk.journal.settled_fence(CARD) == 1


async def test_a_look_starts_nothing_and_proves_that_nothing_ran(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk()
    outcome = await run(desk, order(attach_only=True))
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert engine_of(desk).submitted == 0
    assert [asked["attach_only"] for asked in api.orders] == [True], "only asked whether the card is its own"
    assert desk.journal.settled_fence(CARD) == 1


@pytest.mark.parametrize("attach_only", [True, False])
@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("stops", [True, False])
async def test_an_agent_that_does_not_own_its_card_proves_nothing(
    make_desk: MakeDesk, api: InternalApi, attach_only: bool, silent: bool, stops: bool
) -> None:
    """The owner may have the run; taken for proof, this journal's ignorance would run it a second time."""
    desk = make_desk()
    if silent:
        dead = FakeEngine([Script.CRASH_ON_SUBMIT])
        await dead.submit(upscale("x", desk.folder, width=1, height=1))
        desk = make_desk(engine=dead)
    api.stray = True
    submitted = engine_of(desk).submitted
    card_run = CardRun(desk, order(attach_only=attach_only), scheduled_at=time.time())
    if stops:
        card_run.stop()
    with pytest.raises(TryAgain):
        async with asyncio.timeout(20):
            await card_run.course()
    assert engine_of(desk).submitted == submitted
    entry = desk.journal.find(CARD, "gen_a", 1)
    assert entry is not None
    assert entry.outcome is None


async def test_a_look_brings_a_finished_result_home(make_desk: MakeDesk) -> None:
    desk = make_desk()
    _, task = await running(desk)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    outcome = await run(desk, order(attach_only=True))
    assert outcome.verdict is RunVerdict.FINISHED
    assert len(outcome.files) == 1


async def test_after_a_lost_journal_absence_proves_nothing_where_the_engine_keeps_no_records(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.db"
    make_desk().journal.close()
    await asyncio.to_thread(journal.write_bytes, b"no database" * 1000)
    scheduled_at = time.time() - 60
    for keeps_records, verdict in ((False, RunVerdict.UNKNOWN), (True, RunVerdict.FAILED)):
        desk = make_desk(engine=FakeEngine(keeps_records=keeps_records))
        look = CardRun(desk, order(fence=7, attach_only=True), scheduled_at=scheduled_at)
        assert (await look.course()).verdict is verdict


async def test_a_cancel_is_confirmed_by_the_engine(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk(Script.SLOW)
    card_run, task = await running(desk)
    card_run.stop()
    outcome = await asyncio.wait_for(task, 10)
    assert outcome.verdict is RunVerdict.CANCELED
    assert api.stored == {}
    assert desk.journal.settled_fence(CARD) == 1


async def test_an_engine_that_ignores_cancel_is_ended_and_that_is_proof(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.IGNORE_CANCEL)
    before = await desk.engine.probe()
    card_run, task = await running(desk)
    card_run.stop()
    outcome = await asyncio.wait_for(task, 10)
    after = await desk.engine.probe()
    assert outcome.verdict is RunVerdict.CANCELED
    assert before is not None
    assert after is not None
    assert before.boot_id != after.boot_id


async def test_a_cancel_before_anything_was_sent_proves_that_nothing_ran(make_desk: MakeDesk) -> None:
    desk = make_desk()
    card_run = CardRun(desk, order(), scheduled_at=time.time())
    card_run.stop()
    outcome = await card_run.course()
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.CANCELED, False)
    assert engine_of(desk).submitted == 0


async def test_a_run_past_its_limit_is_stopped_and_failed(make_desk: MakeDesk, api: InternalApi) -> None:
    api.run_s_max = 1
    desk = make_desk(Script.SLOW)
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.FAILED
    assert outcome.failure is not None
    assert "longer than its limit" in outcome.failure.message


async def test_a_clock_that_is_set_ends_no_run(make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make_desk(Script.SLOW)
    _, task = await running(desk)
    now = time.time
    monkeypatch.setattr("activities.card_run.time.time", lambda: now() + 86_400)
    assert (await asyncio.wait_for(task, 20)).verdict is RunVerdict.FINISHED


async def test_a_stale_lease_starts_nothing(make_desk: MakeDesk, api: InternalApi) -> None:
    api.stale = "a newer lease exists"
    desk = make_desk()
    outcome = await run(desk)
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert engine_of(desk).submitted == 0


async def test_a_lease_that_went_stale_meanwhile_delivers_nothing(make_desk: MakeDesk, api: InternalApi) -> None:
    api.stale_uploads = "a newer lease exists"
    desk = make_desk()
    outcome = await run(desk)
    assert (outcome.verdict, outcome.files) == (RunVerdict.FAILED, ())
    assert api.stored == {}
    assert desk.journal.settled_fence(CARD) == 1


async def test_a_result_that_cant_be_stored_waits_for_the_next_try(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk()
    _, task = await running(desk)
    api.away = True
    with pytest.raises(TryAgain):
        await asyncio.wait_for(task, 20)
    api.away = False
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.FINISHED
    assert engine_of(desk).submitted == 1


async def test_bytes_that_arent_the_input_are_never_run(make_desk: MakeDesk, api: InternalApi) -> None:
    api.serve = bytes(len(api.picture))
    desk = make_desk()
    outcome = await run(desk)
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert engine_of(desk).submitted == 0


async def test_progress_never_says_one_before_the_result_is_stored(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk()
    heard: list[float] = []
    card_run, task = await running(desk)
    while not task.done():
        heard.append(card_run.fraction)
        if desk.running is not None and not api.stored:
            assert desk.running.fraction < 1
        await asyncio.sleep(0)
    assert heard == sorted(heard)
    assert max(heard) < 1
