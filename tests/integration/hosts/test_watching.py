"""Cards are looked at often while something runs; what a run took is told once, with its end."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.gpu.fake import FakeCard, FakeNvml
from infra.gpu.inventory import Card
from infra.gpu.nvml import NvmlInventory
from tests.integration.hosts.conftest import CARD, MakeDesk
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi, order
from workers import watching
from workers.reporting import Reporter
from workers.watching import Watch
from workflows.contracts.failures import Code
from workflows.contracts.hosts import HostReport, Loaded


@pytest.fixture
async def gpu() -> AsyncIterator[tuple[FakeCard, Watch]]:
    """A fake GPU that is watched. Its clock is the test's."""
    card = FakeCard(CARD, used_mib=1_000)
    watch = Watch(NvmlInventory(FakeNvml([card]), is_ours=lambda pid: pid == 7), clock=lambda: 1.0)
    looking = asyncio.create_task(watch.run())
    yield card, watch
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


@pytest.fixture
async def agent(
    gpu: tuple[FakeCard, Watch], make_desk: MakeDesk, api: InternalApi
) -> AsyncIterator[tuple[Reporter, CardDesk]]:
    """A desk of that GPU that reports."""
    desks: dict[str, CardDesk] = {}
    reporter = Reporter(boot_id="b", host_id="h", watches=(gpu[1],), desks=desks, client=api.client())
    desks[CARD] = desk = dataclasses.replace(make_desk(), tell=reporter.tell, meter=gpu[1].meter(CARD))
    reporting = asyncio.create_task(reporter.run())
    await reporter.tell()
    yield reporter, desk
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)


def engine_of(desk: CardDesk) -> FakeEngine:
    assert isinstance(desk.keeper, FakeEngine)
    return desk.keeper


async def run(desk: CardDesk, *, fence: int = 1) -> Code | None:
    """One run to its end; the code of its failure, if any."""
    outcome = await CardRun(desk, order(fence=fence), scheduled_at=time.time()).course()
    return None if outcome.failure is None else outcome.failure.code


async def last(reporter: Reporter, api: InternalApi) -> HostReport:
    await reporter.tell()
    return HostReport.model_validate(api.reports[-1])


async def test_a_meter_keeps_what_was_there_before_and_the_most(
    gpu: tuple[FakeCard, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    card, watch = gpu
    meter = watch.meter(CARD)
    assert meter.end() is None, "nothing was begun"
    seen: list[int | None] = []
    take = meter.take

    def heard(mib: int | None) -> None:
        take(mib)
        seen.append(mib)

    monkeypatch.setattr(meter, "take", heard)
    meter.begin()
    for used in (1_000, 9_000, 3_000):
        card.used_mib = used
        await eventually(partial(seen.__contains__, used), what="a look")
    measured = meter.end()
    assert measured is not None
    assert (measured.baseline_mib, measured.peak_mib) == (1_000, 9_000)
    assert measured.looks >= 3


async def test_looks_are_five_a_second_while_something_runs_and_one_otherwise(
    gpu: tuple[FakeCard, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    timeout = asyncio.timeout

    def noted(delay: float) -> asyncio.Timeout:
        pauses.append(delay)
        return timeout(delay)

    monkeypatch.setattr("workers.watching.asyncio.timeout", noted)
    _, watch = gpu
    watch.meter(CARD).begin()
    await eventually(lambda: len(pauses) > 3, what="some looks")
    assert max(pauses[1:]) <= 0.2
    watch.meter(CARD).end()
    await eventually(lambda: max(pauses[-1:]) > 0.2, what="a longer pause")
    assert pauses[-1] <= 1.0


async def test_a_driver_that_hangs_takes_its_cards_out_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    hung, released = threading.Event(), threading.Event()

    class Driver:
        looks = 0

        def cards(self) -> tuple[Card, ...]:
            self.looks += 1
            if self.looks == 2:
                hung.set()
                released.wait(30)
            return (Card("GPU-1", "gpu-0", "x", 10, 5),)

        def ours_mib(self, card_uuid: str) -> int | None:
            return None

    monkeypatch.setattr(watching, "FRESH_S", 0.2)
    monkeypatch.setattr(watching, "IDLE_S", 0.05)
    driver = Driver()
    watch = Watch(driver)

    async def unseen() -> bool:
        return await watch.cards() == ()

    looking = asyncio.create_task(watch.run())
    try:
        assert len(await watch.cards()) == 1
        await eventually(hung.is_set, what="the driver to hang")
        await eventually(unseen, what="the card to be too long unseen")
        released.set()
        await eventually(lambda: driver.looks > 3, what="more looks")
        assert len(await watch.cards()) == 1
    finally:
        released.set()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def test_a_report_carries_what_the_card_tells_and_the_engine_has_loaded(
    gpu: tuple[FakeCard, Watch], agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    card, (reporter, desk) = gpu[0], agent
    card.used_mib, card.processes, card.utilisation_percent = 9_000, [(7, 5_000), (8, 500)], 40
    assert await desk.engine.load("flux")
    await eventually(lambda: gpu[1]._cards[0].foreign_mib, what="a look")
    (said,) = (await last(reporter, api)).cards
    assert (said.foreign_mib, said.vram_free_mib) == (512, 88_887)
    assert said.residents == (Loaded(name="flux", mib=100),)
    assert (said.telemetry.utilisation, said.telemetry.processes, said.telemetry.power_w) == (0.4, 2, 80)


async def test_nonsense_is_reported_with_the_last_good_figures(
    gpu: tuple[FakeCard, Watch], agent: tuple[Reporter, CardDesk], api: InternalApi
) -> None:
    card, (reporter, _) = gpu[0], agent
    card.used_mib = 200_000
    await eventually(lambda: gpu[1]._cards[0].nonsense, what="a look")
    (said,) = (await last(reporter, api)).cards
    assert said.telemetry.nonsense == ("-102113 of 97887 MiB free",)
    assert said.vram_free_mib == 96_887


async def test_the_memory_of_a_run_is_told_until_a_report_with_it_was_taken(
    agent: tuple[Reporter, CardDesk], api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RUNNING_S", 0.01)
    reporter, desk = agent
    assert await run(desk) is None
    await reporter.tell()
    told = [
        run for report in api.reports for card in HostReport.model_validate(report).cards for run in card.measured
    ]
    assert [(one.task_id, one.fence, one.baseline_mib, one.out_of_memory) for one in told] == [
        ("gen_a", 1, 1_000, False)
    ]
    assert desk.measured == []


async def test_a_run_too_short_to_be_looked_at_tells_nothing_but_that_memory_was_not_enough(
    agent: tuple[Reporter, CardDesk], api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen before it would be taken for its peak, and a budget suggested by it."""
    monkeypatch.setattr(watching, "RUNNING_S", 60.0)
    reporter, desk = agent
    engine_of(desk).plays(Script.GOOD, Script.OUT_OF_MEMORY)
    assert await run(desk) is None
    assert await run(desk, fence=2) is Code.OUT_OF_MEMORY
    await reporter.tell()
    told = [
        run for report in api.reports for card in HostReport.model_validate(report).cards for run in card.measured
    ]
    assert {(one.fence, one.out_of_memory) for one in told} == {(2, True)}


async def test_a_run_that_was_short_frees_its_engine_and_the_next_is_sound(
    agent: tuple[Reporter, CardDesk],
) -> None:
    _, desk = agent
    engine_of(desk).plays(Script.OUT_OF_MEMORY, Script.GOOD)
    await desk.engine.load("flux")
    boot = await desk.engine.probe()
    assert await run(desk) is Code.OUT_OF_MEMORY
    after = await desk.engine.probe()
    assert boot is not None
    assert after is not None
    assert (after.residents, after.boot_id) == ((), boot.boot_id)
    assert await run(desk, fence=2) is None


@pytest.mark.parametrize("script", [Script.POISONED, Script.OUT_OF_MEMORY])
async def test_an_engine_that_stays_short_is_started_anew(
    agent: tuple[Reporter, CardDesk], script: Script
) -> None:
    """Poisoned: it doesn't free what it has. Or it says that it did, and is short again."""
    _, desk = agent
    engine = engine_of(desk)
    engine.plays(script, script, Script.GOOD)
    before = await engine.probe()
    for fence in range(1, 2 if script is Script.POISONED else 3):
        assert await run(desk, fence=fence) is Code.OUT_OF_MEMORY
    after = await engine.probe()
    assert before is not None
    assert after is not None
    assert after.boot_id != before.boot_id
    engine.plays(Script.GOOD)
    assert await run(desk, fence=9) is None
