"""Every engine fulfils the port: the same tests, run against each."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.engines.port import Engine, EngineKeeper
from infra.engines.states import RunState
from tests.support.engines import native_engine, to_the_end, upscale
from tests.support.eventually import eventually
from tests.support.pictures import noise
from workflows.contracts.failures import Code


@dataclass(frozen=True)
class Bench:
    """An engine under test.

    Attributes:
        keeper: Keeps it.
        quick: A picture that is done in a moment.
        long: One that takes long enough to be disturbed.
    """

    keeper: EngineKeeper
    quick: Path
    long: Path

    @property
    def engine(self) -> Engine:
        return self.keeper.engine


@contextlib.asynccontextmanager
async def native(folder: Path) -> AsyncIterator[EngineKeeper]:
    async with native_engine(folder / "engine") as process:
        yield process


@contextlib.asynccontextmanager
async def fake(folder: Path) -> AsyncIterator[EngineKeeper]:
    del folder
    engine = FakeEngine([Script.GOOD], step_s=0.05)
    keeping = asyncio.create_task(engine.keep())
    yield engine
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.fixture(params=[native, fake], ids=["native", "fake"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    quick, long = tmp_path / "quick.png", tmp_path / "long.png"
    noise(40, 32).save(quick)
    noise(600, 600).save(long)
    open_engine: Callable[[Path], contextlib.AbstractAsyncContextManager[EngineKeeper]] = request.param
    async with open_engine(tmp_path) as keeper:
        yield Bench(keeper, quick, long)


async def test_a_run_is_submitted_followed_and_collected(bench: Bench, tmp_path: Path) -> None:
    engine = bench.engine
    seen = await engine.submit(upscale("run-1", bench.quick, width=40, height=32))
    assert seen.state.is_alive
    over = await to_the_end(engine, seen)
    assert (over.state, over.fraction, over.failure) == (RunState.FINISHED, 1.0, None)
    assert over.engine_s is not None
    collection = await engine.collect("run-1", tmp_path)
    (file,) = collection.files
    data = file.path.read_bytes()
    assert (file.sha256, file.size) == (hashlib.sha256(data).hexdigest(), len(data))
    with Image.open(file.path) as image:
        assert (image.size, image.format) == ((80, 64), "PNG")


async def test_what_was_never_submitted_is_absent(bench: Bench, tmp_path: Path) -> None:
    for seen in (await bench.engine.attach("nobody"), await bench.engine.cancel("nobody")):
        assert seen.state is RunState.ABSENT
    assert (await bench.engine.collect("nobody", tmp_path)).failure is not None
    await bench.engine.forget("nobody")


async def test_the_same_run_submitted_again_is_found_and_not_repeated(bench: Bench) -> None:
    submission = upscale("run-1", bench.quick, width=40, height=32)
    first = await to_the_end(bench.engine, await bench.engine.submit(submission))
    again = await bench.engine.submit(submission)
    assert (again.state, again.engine_s) == (RunState.FINISHED, first.engine_s)


async def test_a_run_is_attached_to_by_its_id_alone(bench: Bench) -> None:
    await bench.engine.submit(upscale("run-1", bench.quick, width=40, height=32))
    seen = await to_the_end(bench.engine, await bench.engine.attach("run-1"))
    assert seen.state is RunState.FINISHED


async def test_progress_rises_and_is_one_only_at_the_end(bench: Bench) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.long, width=600, height=600))
    heard = [seen.fraction]
    while seen.state.is_alive:
        seen = await bench.engine.follow(seen, wait_s=0.2)
        heard.append(seen.fraction)
    assert heard == sorted(heard)
    assert len(set(heard)) > 4
    assert [fraction for fraction in heard if fraction >= 1] == [1.0]


async def test_following_ends_after_its_wait_when_nothing_changes(bench: Bench) -> None:
    await to_the_end(bench.engine, await bench.engine.submit(upscale("r", bench.quick, width=40, height=32)))
    seen = await bench.engine.attach("r")
    assert await bench.engine.follow(seen, wait_s=0.05) == seen


async def test_a_running_run_is_canceled_and_says_so(bench: Bench, tmp_path: Path) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.long, width=600, height=600))
    while seen.fraction <= 0.05:
        seen = await bench.engine.follow(seen, wait_s=1.0)
    told = await bench.engine.cancel("run-1")
    assert told.state in (RunState.RUNNING, RunState.CANCELED)
    assert (await to_the_end(bench.engine, told)).state is RunState.CANCELED
    assert (await bench.engine.collect("run-1", tmp_path)).failure is not None


async def test_a_finished_run_cant_be_canceled(bench: Bench) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.quick, width=40, height=32))
    await to_the_end(bench.engine, seen)
    assert (await bench.engine.cancel("run-1")).state is RunState.FINISHED


async def test_a_restart_proves_a_running_run_lost_and_it_can_be_run_again(bench: Bench) -> None:
    submission = upscale("run-1", bench.long, width=600, height=600)
    seen = await bench.engine.submit(submission)
    while seen.fraction <= 0.05:
        seen = await bench.engine.follow(seen, wait_s=1.0)
    await bench.keeper.restart()
    lost = await bench.engine.attach("run-1")
    assert (lost.state, lost.crashed) == (RunState.LOST, True)
    assert lost.boot_id != seen.boot_id
    again = await bench.engine.submit(submission)
    assert again.state.is_alive
    await to_the_end(bench.engine, await bench.engine.cancel("run-1"))


async def test_a_finished_result_survives_a_restart(bench: Bench, tmp_path: Path) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.quick, width=40, height=32))
    await to_the_end(bench.engine, seen)
    await bench.keeper.restart()
    assert (await bench.engine.attach("run-1")).state is RunState.FINISHED
    assert len((await bench.engine.collect("run-1", tmp_path)).files) == 1


async def test_a_forgotten_run_is_absent(bench: Bench) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.quick, width=40, height=32))
    await to_the_end(bench.engine, seen)
    await bench.engine.forget("run-1")
    assert (await bench.engine.attach("run-1")).state is RunState.ABSENT


async def test_a_run_that_goes_on_isnt_forgotten(bench: Bench) -> None:
    seen = await bench.engine.submit(upscale("run-1", bench.long, width=600, height=600))
    await bench.engine.forget("run-1")
    assert (await bench.engine.attach("run-1")).state.is_alive
    await to_the_end(bench.engine, await bench.engine.cancel(seen.run_id))


async def test_a_probe_tells_the_boot_and_what_runs(bench: Bench) -> None:
    idle = await bench.engine.probe()
    assert idle is not None
    assert idle.runs == ()
    await bench.engine.submit(upscale("run-1", bench.long, width=600, height=600))
    busy = await bench.engine.probe()
    assert busy is not None
    assert (busy.boot_id, busy.runs) == (idle.boot_id, ("run-1",))
    await bench.keeper.restart()
    after = await eventually(bench.engine.probe, what="the restarted engine")
    assert after is not None
    assert after.boot_id != idle.boot_id
    assert after.runs == ()


async def test_codes_of_failures_are_the_contracts(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(noise().tobytes()[:500])
    async with native(tmp_path) as keeper:
        seen = await keeper.engine.submit(upscale("run-1", broken, width=40, height=32))
        over = await to_the_end(keeper.engine, seen)
    assert over.state is RunState.FAILED
    assert over.failure is not None
    assert over.failure.code is Code.INVALID_MEDIA
    assert str(tmp_path) not in over.failure.message


async def test_an_engine_says_what_it_has_loaded_and_drops_it(bench: Bench) -> None:
    engine = bench.engine
    probe = await engine.probe()
    assert probe is not None
    assert probe.residents == ()
    name = "realesr-animevideov3-x2"
    assert await engine.load(name)
    probe = await engine.probe()
    assert probe is not None
    (loaded,) = probe.residents
    assert loaded.name == name
    assert loaded.mib > 0
    assert await engine.load(name), "once more changes nothing"
    assert await engine.free("something else")
    assert await engine.free(name)
    probe = await engine.probe()
    assert probe is not None
    assert probe.residents == ()
    assert await engine.free()


async def test_what_a_run_uses_is_not_dropped_under_it(bench: Bench) -> None:
    engine = bench.engine
    seen = await engine.submit(upscale("run-1", bench.long, width=600, height=600))
    assert not await engine.free()
    assert not await engine.load("realesrgan-x4plus")
    assert (await engine.cancel("run-1")).run_id == "run-1"
    await to_the_end(engine, seen)
    assert await engine.free()
