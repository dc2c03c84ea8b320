"""A host runs and stores nothing that isn't signed for just this: it refuses by name, and says so."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import pytest
from structlog.testing import capture_logs

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from activities.card_supply import TryAgain
from infra.engines.fake.script import Script
from infra.engines.states import RunState
from infra.hosts.journal import Entry, Step
from infra.orders import OrderKeys
from infra.orders.signing import VALID_S
from tests.integration.hosts.conftest import CARD, MakeDesk
from tests.integration.hosts.test_card_run import engine_of, run, running
from tests.support.eventually import eventually
from tests.support.internal_api import OTHER_SIGNER, SIGNER, InternalApi, order, picture_address
from workers import strays
from workflows.contracts.failures import Code
from workflows.contracts.hosts import OrderFault, OrderRequest, UploadGrant, Work
from workflows.contracts.states import RunVerdict

Break = Callable[[InternalApi, CardDesk], None]


def _unsigned(api: InternalApi, desk: CardDesk) -> None:
    api.signer = None


def _anothers(api: InternalApi, desk: CardDesk) -> None:
    api.signer = OTHER_SIGNER


def _altered(api: InternalApi, desk: CardDesk) -> None:
    api.tamper = lambda answer: answer.model_copy(update={"parameters": {"scale": 4}})


def _for_another_card(api: InternalApi, desk: CardDesk) -> None:
    _resign(api, card_uuid="cpu-test-1")


def _for_another_lease(api: InternalApi, desk: CardDesk) -> None:
    _resign(api, lease_id="lease-0")


def _replayed(api: InternalApi, desk: CardDesk) -> None:
    """The answer to an earlier question of just this lease."""
    _resign(api, nonce="an earlier one")


def _expired(api: InternalApi, desk: CardDesk) -> None:
    desk.client._keys = OrderKeys((SIGNER.public_key,), now=lambda: time.time() + VALID_S + 1)


def _below(api: InternalApi, desk: CardDesk) -> None:
    desk.journal.close_run(desk.journal.intend(_entry(9, "gen_before")), None)


def _entry(fence: int, task: str = "gen_a") -> Entry:
    return Entry(task, fence, CARD, f"lease-{fence}", f"{task}-{fence}", Step.ASKED)


def _resign(api: InternalApi, **change: str) -> None:
    def resigned(answer: Work | UploadGrant) -> Work:
        asked = OrderRequest.model_validate(api.orders[-1]).model_copy(update=change)
        return SIGNER.signed_work(cast("Work", answer), asked, account_id="acc-a")

    api.tamper = resigned


BREAKS = [
    (_unsigned, OrderFault.UNSIGNED),
    (_anothers, OrderFault.UNKNOWN_KEY),
    (_altered, OrderFault.ALTERED),
    (_for_another_card, OrderFault.ANOTHER_CARD),
    (_for_another_lease, OrderFault.NOT_ASKED_FOR),
    (_replayed, OrderFault.NOT_ASKED_FOR),
    (_expired, OrderFault.EXPIRED),
    (_below, OrderFault.OLD_FENCE),
]


@pytest.mark.parametrize(("broken", "fault"), BREAKS)
async def test_what_isnt_signed_for_this_isnt_run(
    make_desk: MakeDesk, api: InternalApi, broken: Break, fault: OrderFault
) -> None:
    desk = make_desk()
    broken(api, desk)
    known = desk.journal.known_fence(CARD)
    with capture_logs() as logs:
        outcome = await run(desk)
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert outcome.evidence.startswith(f"order refused: {fault.value}: ")
    assert outcome.failure is not None
    assert outcome.failure.code is Code.SERVICE_UNAVAILABLE
    assert fault.value not in outcome.failure.message, "that is for operators"
    assert engine_of(desk).submitted == 0
    assert desk.journal.known_fence(CARD) == known, "no intent was written"
    assert desk.refused_order is not None
    assert (desk.refused_order.fault, desk.refused_order.task_id, desk.refused_order.fence) == (fault, "gen_a", 1)
    (line,) = [line for line in logs if line["event"] == "order_refused"]
    assert (line["fault"], line["task_id"]) == (fault.value, "gen_a")
    assert await run(desk) == outcome, "and stays refused under this lease"
    assert len(api.orders) == 1


async def test_an_order_comes_before_its_intent(
    make_desk: MakeDesk, api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk()
    intend = desk.journal.intend
    orders_at_intent: list[int] = []

    def noted(entry: Entry, *, deadline_at: float) -> Entry:
        orders_at_intent.append(len(api.orders))
        found = desk.journal.find(CARD, "gen_a", 1)
        assert found is not None
        assert found.step is Step.ASKED
        assert engine_of(desk).submitted == 0
        return intend(entry, deadline_at=deadline_at)

    monkeypatch.setattr(desk.journal, "intend", noted)
    assert (await run(desk)).verdict is RunVerdict.FINISHED
    assert orders_at_intent == [1]
    assert desk.journal.known_fence(CARD) == 1


async def test_a_run_whose_engine_died_isnt_begun_again_by_an_order_that_is_refused(
    make_desk: MakeDesk, api: InternalApi
) -> None:
    desk = make_desk(Script.CRASH_MID_RUN, Script.GOOD)
    task = asyncio.create_task(run(desk))
    await eventually(lambda: engine_of(desk).submitted == 1, what="the first run")
    api.signer = None
    outcome = await task
    assert (outcome.verdict, outcome.lost, outcome.may_have_run) == (RunVerdict.FAILED, True, True)
    assert outcome.evidence.startswith("order refused: unsigned")
    assert engine_of(desk).submitted == 1


@pytest.mark.parametrize("how", ["unsigned", "elsewhere"])
async def test_a_result_is_stored_nowhere_without_a_signed_permission(
    make_desk: MakeDesk, api: InternalApi, how: str
) -> None:
    desk = make_desk()

    def spoiled(answer: Work | UploadGrant) -> Work | UploadGrant:
        if isinstance(answer, Work):
            return answer
        change = {"warrant": None} if how == "unsigned" else {"target": picture_address("0" * 64, "PUT")}
        return answer.model_copy(update=change)

    api.tamper = spoiled
    with pytest.raises(TryAgain, match="unsigned" if how == "unsigned" else "altered"):
        await run(desk)
    assert (api.uploads, api.stored) == (0, {})
    assert desk.refused_order is not None
    api.tamper = None
    assert (await run(desk)).verdict is RunVerdict.FINISHED, "the result waited with the engine"
    assert engine_of(desk).submitted == 1


async def test_a_look_takes_no_unsigned_word_for_proof(make_desk: MakeDesk, api: InternalApi) -> None:
    """Whose card it is decides whether this journal's ignorance proves anything."""
    desk = make_desk()
    api.signer = None
    with pytest.raises(TryAgain):
        await run(desk, order(attach_only=True))
    entry = desk.journal.find(CARD, "gen_a", 1)
    assert entry is not None
    assert (entry.step, entry.outcome) == (Step.ASKED, None)


async def test_a_run_isnt_given_up_for_a_word_that_is_refused(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk(Script.SLOW)
    _, task = await running(desk)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    api.signer = None
    (entry,) = desk.journal.open_runs(CARD)
    assert not await strays._nobody_waits(desk, entry)
    assert (await desk.engine.attach("gen_a-1")).state is RunState.RUNNING
    assert desk.refused_order is not None


async def test_refusals_are_counted(make_desk: MakeDesk, api: InternalApi) -> None:
    desk = make_desk()
    api.signer = None
    for fence in (1, 2):
        await run(desk, order(fence=fence))
    assert desk.refused_order is not None
    assert (desk.refused_order.times, desk.refused_order.fence) == (2, 2)


async def test_an_agent_that_died_before_the_intent_proves_that_nothing_ran(
    make_desk: MakeDesk, api: InternalApi
) -> None:
    """The fetch counts at the API already; the journal of the next agent says that it got no further."""
    first = make_desk()
    first.journal.begin(_entry(1))
    second = make_desk(engine=engine_of(first))
    outcome = await CardRun(second, order(attach_only=True), scheduled_at=time.time()).course()
    assert (outcome.verdict, outcome.may_have_run) == (RunVerdict.FAILED, False)
    assert second.journal.settled_fence(CARD) == 1, "its card is free"
    third = make_desk(engine=engine_of(first))
    assert await run(third) == outcome, "the first try, come late, starts nothing"
    assert engine_of(third).submitted == 0
