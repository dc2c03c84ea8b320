"""What a host says of its cards, and what it does with runs that nobody waits for."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator

import pytest

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from activities.card_supply import TryAgain
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.engines.states import RunState
from infra.gpu.fake import FakeCard, FakeNvml
from infra.gpu.inventory import Card
from infra.gpu.nvml import NvmlInventory
from tests.integration.hosts.conftest import CARD, MakeDesk
from tests.support.engines import upscale
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi, order
from workers import strays
from workers.reporting import CLEAN_SLATE, Reporter
from workers.watching import Watch
from workflows.contracts.hosts import HostReport


class OneCpu:
    """An inventory of the desk's card."""

    def cards(self) -> tuple[Card, ...]:
        """The card."""
        return (Card(CARD, "cpu-0", "CPU", 8000, 4000),)

    def ours_mib(self, card_uuid: str) -> int | None:
        """A stand-in for what its engine has."""
        return 100 if card_uuid == CARD else None


@pytest.fixture
async def agent(make_desk: MakeDesk, api: InternalApi) -> AsyncIterator[tuple[Reporter, CardDesk]]:
    """A desk that reports, next to a GPU that has no engine yet."""
    desks: dict[str, CardDesk] = {}
    engines: dict[str, int] = {}
    gpus = NvmlInventory(FakeNvml([FakeCard("GPU-1")]))
    watches = Watch(OneCpu()), Watch(gpus)
    looking = [asyncio.create_task(watch.run()) for watch in watches]
    reporter = Reporter(
        boot_id="boot-1", host_id="host-1", watches=watches, desks=desks, client=api.client(), engines=engines
    )
    desk = dataclasses.replace(make_desk(Script.SLOW), tell=reporter.tell, owned=asyncio.Event())
    desks[CARD] = desk
    reporting = asyncio.create_task(reporter.run())
    yield reporter, desk
    for task in (reporting, *looking):
        task.cancel()
    await asyncio.gather(reporting, *looking, return_exceptions=True)


async def begin(desk: CardDesk) -> "asyncio.Task[object]":
    """A run at work."""
    desk.owned.set()
    task = asyncio.create_task(CardRun(desk, order(), scheduled_at=time.time()).course())
    await eventually(lambda: desk.running and desk.running.fraction > 0, what="progress")
    return task


async def leave(task: "asyncio.Task[object]") -> None:
    """As when the agent's step is gone."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def last(reporter: Reporter, api: InternalApi) -> HostReport:
    """A report made now."""
    await reporter.tell()
    return HostReport.model_validate(api.reports[-1])


async def test_an_idle_card_is_reported_with_its_engine(
    agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    reporter, desk = agent
    report = await last(reporter, api)
    cpu, gpu = report.cards
    assert (cpu.card_uuid, cpu.gpu_model, cpu.boot_id) == (CARD, "CPU", "boot-1")
    assert (cpu.engines, cpu.capabilities) == (("fake",), ("image_upscale",))
    assert (cpu.running, cpu.settled_fence) == (None, 0)
    assert (gpu.card_uuid, gpu.engines, gpu.capabilities) == ("GPU-1", (), ())
    assert desk.owned.is_set()


async def test_orders_wait_until_the_agent_was_heard(agent: tuple[Reporter, CardDesk], api: InternalApi) -> None:
    api.away = True
    _, desk = agent
    await asyncio.sleep(0)
    assert not desk.owned.is_set()
    api.away = False
    await eventually(desk.owned.is_set, what="the first report")


async def test_a_card_that_another_host_has_gets_no_order_until_it_is_ours(
    agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    reporter, desk = agent
    reporter.clean_slate(CARD)
    api.refused[CARD] = "host other has this card and reports it"
    assert (await last(reporter, api)).host_id == "host-1"
    assert not desk.owned.is_set()
    with pytest.raises(TryAgain):
        await CardRun(desk, order(), scheduled_at=time.time()).course()
    assert api.orders == []
    del api.refused[CARD]
    assert (await last(reporter, api)).cards[0].settled_fence == CLEAN_SLATE, "said again: it was never heard"
    assert desk.owned.is_set()


async def test_a_running_card_says_what_it_runs_and_then_that_its_fence_is_over(
    agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    reporter, desk = agent
    task = await begin(desk)
    running = (await last(reporter, api)).cards[0].running
    assert running is not None
    assert (running.task_id, running.fence) == ("gen_a", 1)
    assert 0 < running.fraction < 1
    await asyncio.wait_for(task, 20)
    # The end is reported before the step completes: nothing is asked for here.
    told = HostReport.model_validate(api.reports[-1]).cards[0]
    assert (told.running, told.settled_fence) == (None, 1)


async def test_a_run_left_behind_keeps_its_card(agent: tuple[Reporter, CardDesk], api: InternalApi) -> None:
    reporter, desk = agent
    await leave(await begin(desk))
    cpu = (await last(reporter, api)).cards[0]
    assert cpu.running is not None
    assert (cpu.running.task_id, cpu.settled_fence) == ("gen_a", 0)


async def test_a_dead_engine_offers_nothing(make_desk: MakeDesk, api: InternalApi) -> None:
    dead = FakeEngine([Script.CRASH_ON_SUBMIT])
    await dead.submit(upscale("x", make_desk().folder, width=1, height=1))
    desk = make_desk(engine=dead)
    watch = Watch(OneCpu())
    reporter = Reporter(boot_id="b", host_id="h", watches=(watch,), desks={CARD: desk}, client=api.client())
    working = [asyncio.create_task(reporter.run()), asyncio.create_task(watch.run())]
    cpu = (await last(reporter, api)).cards[0]
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    assert (cpu.engines, cpu.capabilities) == ((), ())


async def test_a_clean_slate_is_said_until_it_was_heard_once(
    agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    reporter, _ = agent
    api.away = True
    reporter.clean_slate(CARD)
    await reporter.tell()
    api.away = False
    seen = len(api.reports)
    await reporter.tell()
    assert (await last(reporter, api)).cards[0].settled_fence == 0
    assert CLEAN_SLATE in [HostReport.model_validate(r).cards[0].settled_fence for r in api.reports[seen:]]


async def test_a_run_whose_lease_is_over_is_stopped_and_its_card_freed(
    agent: tuple[Reporter, CardDesk], api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays, "LOOK_EACH_S", 0.05)
    _, desk = agent
    await leave(await begin(desk))
    settling = asyncio.create_task(strays.keep_settling(desk))
    asked = len(api.orders)
    await eventually(lambda: len(api.orders) > asked + 2, what="looks while somebody waits")
    assert (await desk.engine.attach("gen_a-1")).state is RunState.RUNNING
    api.stale = "the generation is over"
    await eventually(lambda: desk.journal.settled_fence(CARD) == 1, what="the card's release")
    await eventually(lambda: _absent(desk), what="the engine's forgetting")
    settling.cancel()
    await asyncio.gather(settling, return_exceptions=True)


async def _absent(desk: CardDesk) -> bool:
    return (await desk.engine.attach("gen_a-1")).state is RunState.ABSENT


async def test_a_run_with_a_step_of_its_own_is_left_alone(
    agent: tuple[Reporter, CardDesk], api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays, "LOOK_EACH_S", 0.02)
    _, desk = agent
    task = await begin(desk)
    settling = asyncio.create_task(strays.keep_settling(desk))
    await asyncio.wait_for(task, 20)
    settling.cancel()
    await asyncio.gather(settling, return_exceptions=True)
    assert [asked["attach_only"] for asked in api.orders] == [False]


async def test_a_stray_in_the_engine_is_stopped_before_work_is_taken(make_desk: MakeDesk) -> None:
    desk = make_desk(Script.SLOW)
    await desk.engine.submit(upscale("nobodys", desk.folder, width=40, height=32))
    assert await strays.settle_at_start(desk)
    assert (await desk.engine.attach("nobodys")).state is RunState.CANCELED


async def test_a_run_that_the_journal_knows_goes_on_through_a_restart(make_desk: MakeDesk) -> None:
    first = make_desk(Script.SLOW)
    await leave(await begin(first))
    assert isinstance(first.keeper, FakeEngine)
    second = make_desk(engine=first.keeper)
    assert not await strays.settle_at_start(second)
    assert (await second.engine.attach("gen_a-1")).state is RunState.RUNNING
