"""The engine's process: killed, orphaned, adopted, cleaned up after, and small."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
from PIL import Image

from infra.engines.native.identity import holder
from infra.engines.native.process import NativeProcess, socket_path, stop_engines
from infra.engines.native.records import RETENTION_S, Records, Result
from infra.engines.port import Engine, Sighting
from infra.engines.states import RunState
from tests.support.engines import kept, native_engine, to_the_end, upscale
from tests.support.eventually import eventually
from tests.support.pictures import noise
from workflows.contracts.failures import Code

LONG = 500


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """16 tiles: about 2 s."""
    path = tmp_path / "long.png"
    noise(LONG, LONG).save(path)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.png"
    noise(40, 32).save(path)
    return path


async def begun(engine: Engine, picture: Path, run_id: str = "run-1") -> Sighting:
    """A run of which a tile or two are done."""
    seen = await engine.submit(upscale(run_id, picture, width=LONG, height=LONG))
    async with asyncio.timeout(30):
        while seen.fraction <= 0.05:
            seen = await engine.follow(seen, wait_s=1.0)
    assert seen.state is RunState.RUNNING
    return seen


async def test_a_killed_engine_is_started_again_and_its_run_is_proven_lost(tmp_path: Path, picture: Path) -> None:
    async with native_engine(tmp_path / "engine") as process:
        await begun(process.engine, picture)
        probe = await process.engine.probe()
        assert probe is not None
        assert probe.pid is not None
        os.kill(probe.pid, signal.SIGKILL)
        seen = await eventually(lambda: _answered(process.engine, "run-1"), what="the new engine's answer")
        assert seen is not None
        assert (seen.state, seen.crashed) == (RunState.LOST, True)
        assert seen.boot_id != probe.boot_id


async def _answered(engine: Engine, run_id: str) -> Sighting | None:
    seen = await engine.attach(run_id)
    return None if seen.state is RunState.SILENT else seen


async def test_a_run_outlives_its_agent_and_the_next_one_finds_it(tmp_path: Path, picture: Path) -> None:
    folder = tmp_path / "engine"
    first = NativeProcess(folder, threads=2)
    async with kept(first):
        seen = await begun(first.engine, picture)
    await first.engine.close()
    second = NativeProcess(folder, threads=2)
    async with kept(second):
        found = await second.engine.attach("run-1")
        assert found.state in (RunState.RUNNING, RunState.FINISHED)
        assert found.boot_id == seen.boot_id
        assert (await to_the_end(second.engine, found)).state is RunState.FINISHED
    await second.stop()


async def test_an_orphan_finishes_its_run_ends_and_leaves_the_result(tmp_path: Path, small: Path) -> None:
    folder = tmp_path / "engine"
    process = NativeProcess(folder, threads=2, orphan_s=0.5)
    async with kept(process):
        await process.engine.submit(upscale("run-1", small, width=40, height=32))
    await process.engine.close()
    await eventually(lambda: holder(folder) is None, what="the orphan's end")
    process = NativeProcess(folder, threads=2)
    async with kept(process):
        assert (await process.engine.attach("run-1")).state is RunState.FINISHED
        assert len((await process.engine.collect("run-1", tmp_path)).files) == 1
    await process.stop()


async def test_one_folder_has_one_engine(tmp_path: Path, small: Path) -> None:
    async with native_engine(tmp_path / "engine") as first:
        second = NativeProcess(tmp_path / "engine", threads=2)
        async with kept(second):
            one, other = await first.engine.probe(), await second.engine.probe()
            assert one is not None
            assert other is not None
            assert one.pid == other.pid
        await second.engine.close()
        await first.engine.submit(upscale("run-1", small, width=40, height=32))


async def test_stopping_ends_engines_whoever_started_them(tmp_path: Path, picture: Path) -> None:
    folder = tmp_path / "engines" / "cpu-x-0"
    process = NativeProcess(folder, threads=2)
    async with kept(process):
        await begun(process.engine, picture)
    assert await asyncio.to_thread(stop_engines, tmp_path) == 1
    assert holder(folder) is None
    assert await asyncio.to_thread(stop_engines, tmp_path) == 0
    await process.engine.close()
    process = NativeProcess(folder, threads=2)
    async with kept(process):
        seen = await process.engine.attach("run-1")
        # Stopped by request: lost, but no crash that would count against the job.
        assert (seen.state, seen.crashed) == (RunState.LOST, False)
    await process.stop()


async def test_a_hung_engine_is_replaced(tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.engines.native.process.SILENT_MAX_S", 1.0)
    monkeypatch.setattr("infra.engines.native.driver.ANSWER_S", 0.3)
    async with native_engine(tmp_path / "engine") as process:
        before = await process.engine.probe()
        assert before is not None
        assert before.pid is not None
        os.kill(before.pid, signal.SIGSTOP)
        after = await eventually(lambda: _other_boot(process.engine, before.boot_id), what="the replacement")
        assert after
        await process.engine.submit(upscale("run-1", small, width=40, height=32))


async def _other_boot(engine: Engine, boot_id: str) -> bool:
    probe = await engine.probe()
    return probe is not None and probe.boot_id != boot_id


async def test_a_result_that_was_tampered_with_isnt_handed_out(tmp_path: Path, small: Path) -> None:
    async with native_engine(tmp_path / "engine") as process:
        seen = await process.engine.submit(upscale("run-1", small, width=40, height=32))
        await to_the_end(process.engine, seen)
        (file,) = (await process.engine.collect("run-1", tmp_path)).files
        secret = tmp_path / "secret"
        secret.write_bytes(file.path.read_bytes())
        file.path.unlink()
        file.path.symlink_to(secret)
        collection = await process.engine.collect("run-1", tmp_path)
        assert collection.files == ()
        assert collection.failure is not None
        file.path.unlink()
        file.path.write_bytes(secret.read_bytes()[:-1] + b"x")
        assert (await process.engine.collect("run-1", tmp_path)).failure is not None


@pytest.mark.parametrize("run_id", ["..", "a/b", ".hidden", "a" * 129, "a%00b"])
async def test_an_id_that_could_lead_elsewhere_is_no_id(tmp_path: Path, small: Path, run_id: str) -> None:
    async with native_engine(tmp_path / "engine") as process:
        seen = await process.engine.submit(upscale(run_id, small, width=40, height=32))
        assert seen.state is RunState.SILENT
        await process.engine.forget(run_id)
        assert await asyncio.to_thread(small.exists)


async def test_what_the_engine_doesnt_do_is_refused(tmp_path: Path, small: Path) -> None:
    async with native_engine(tmp_path / "engine") as process:
        seen = await process.engine.submit(upscale("run-1", small, width=40, height=32, scale=3))
        assert (seen.state, seen.refused) == (RunState.FAILED, True)
        assert seen.failure is not None
        assert seen.failure.code is Code.INVALID_REQUEST
        assert (await process.engine.attach("run-1")).state is RunState.ABSENT


@pytest.mark.slow
async def test_memory_doesnt_grow_with_the_picture(tmp_path: Path) -> None:
    """16 times the pixels: held whole, the larger input and its result would take 48 MiB more."""
    peaks = []
    for side in (256, 1024):
        source = tmp_path / f"{side}.jpg"
        noise(256, 256).resize((side, side), Image.Resampling.NEAREST).save(source)
        async with native_engine(tmp_path / f"engine-{side}") as process:
            probe = await process.engine.probe()
            assert probe is not None
            seen = await process.engine.submit(upscale("run-1", source, width=side, height=side, scale=4))
            await to_the_end(process.engine, seen, within=110)
            peaks.append(await asyncio.to_thread(_peak_kib, probe.pid))
    assert peaks[1] - peaks[0] < 24 * 1024


def _peak_kib(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


async def test_an_idle_engine_is_small(tmp_path: Path) -> None:
    async with native_engine(tmp_path / "engine") as process:
        probe = await process.engine.probe()
        assert probe is not None
        assert psutil.Process(probe.pid).memory_info().rss < 90 * 1024 * 1024


def test_the_socket_moves_where_its_path_would_be_too_long(tmp_path: Path) -> None:
    assert socket_path(tmp_path) == tmp_path / "engine.sock"
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    assert len(os.fsencode(socket_path(deep))) < 108
    assert socket_path(deep) != socket_path(deep / "z")


def test_records_past_their_retention_go_and_working_ones_stay(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for run_id in ("old", "working", "new"):
        records.accept(run_id, {})
        records.finish(run_id, Result(RunState.CANCELED))
    for run_id in ("old", "working"):
        os.utime(records.folder(run_id), (1, 1))
    records.sweep(working=frozenset({"working"}), now=RETENTION_S + 2)
    assert set(records.kept()) == {"working", "new"}


def test_a_damaged_record_proves_no_result(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.accept("run-1", {})
    (records.folder("run-1") / "result.json").write_text('{"state": "finis')
    found = records.find("run-1")
    assert found is not None
    assert found.state is RunState.LOST
