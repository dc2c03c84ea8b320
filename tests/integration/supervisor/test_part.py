"""A supervised process: run, run again, stopped; and never another's process touched."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.support.eventually import eventually
from workers.supervisor import part as parts
from workers.supervisor import state
from workers.supervisor.part import Part, PartSpec, end_orphan
from workers.supervisor.state import PartState, StackState

SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


async def yes() -> bool:
    return True


def make(code: str, folder: Path, **changes: object) -> Part:
    spec = PartSpec(name="toy", argv=[sys.executable, "-c", code], environment={}, answers=yes)
    return Part(replace(spec, **changes), log_file=folder / "toy.log", changed=lambda: None)  # type: ignore[arg-type]  # a test's own keywords


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between restarts that a test can wait for."""
    monkeypatch.setattr(parts, "BACKOFF_FIRST_S", 0.01)
    monkeypatch.setattr(parts, "BACKOFF_MAX_S", 0.02)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that says when its handlers stand."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


async def test_it_is_up_once_it_answers(tmp_path: Path) -> None:
    answers = [False, False, True]

    async def answer() -> bool:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    part = make(SLEEPER, tmp_path, answers=answer)
    part.start()
    await part.until_up()
    assert answers == [True]
    assert part.state.condition == "up"
    assert part.state.pid is not None
    await part.stop()
    assert part.state == PartState("toy", "stopped")


async def test_what_dies_is_run_again_and_why_is_told(quick: None, tmp_path: Path) -> None:
    part = make("import sys; sys.exit(7)", tmp_path)
    part.start()
    await eventually(lambda: part.state.restarts >= 3, what="three restarts")
    assert "ended with 7" in part.state.note
    await part.stop()
    restarts = part.state.restarts
    assert part.state.condition == "stopped"
    assert part.state.restarts == restarts


async def test_a_kill_is_told_by_its_name_and_survived(quick: None, tmp_path: Path) -> None:
    notes: list[str] = []
    part = make(SLEEPER, tmp_path)
    part._changed = lambda: notes.append(part.state.note)
    part.start()
    await part.until_up()
    first = part.state.pid
    assert first is not None
    psutil.Process(first).kill()
    await eventually(lambda: part.state.condition == "up" and part.state.pid != first, what="the restart")
    assert "killed by SIGKILL" in notes
    await part.stop()


async def test_pauses_grow_up_to_their_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pauses: list[float] = []
    real = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)  # the pause itself is not what is tested

    monkeypatch.setattr(asyncio, "sleep", note)
    part = make("", tmp_path, argv=["/nowhere/at/all"])
    part.start()
    while len(pauses) < 7:
        await real(0.01)  # the patched sleep can't be waited with
    await part.stop()
    assert pauses[:7] == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert "can't be started" in part.state.note


async def test_who_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    part = make(STUBBORN, tmp_path, stop_s=0.2)
    part.start()
    await part.until_up()
    await eventually(lambda: "ready" in (tmp_path / "toy.log").read_text(), what="its handler to stand")
    process = psutil.Process(part.state.pid)
    await part.stop()
    assert not process.is_running()


async def test_logs_are_for_their_owner_alone(tmp_path: Path) -> None:
    part = make(SLEEPER, tmp_path)
    part.start()
    await part.until_up()
    await part.stop()
    assert (tmp_path / "toy.log").stat().st_mode & 0o777 == 0o600


def test_an_orphan_is_ended(stranger: subprocess.Popen[bytes]) -> None:
    started = psutil.Process(stranger.pid).create_time()
    assert end_orphan(PartState("toy", "up", stranger.pid, started), patience_s=20)
    assert not state.is_same_process(stranger.pid, started)


def test_another_process_with_the_same_number_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    earlier = psutil.Process(stranger.pid).create_time() - 60
    assert not end_orphan(PartState("toy", "up", stranger.pid, earlier), patience_s=20)
    assert not end_orphan(PartState("toy", "stopped"), patience_s=20)
    assert stranger.poll() is None


def test_the_state_names_a_process_by_number_and_time(tmp_path: Path) -> None:
    me = psutil.Process()
    written = StackState(
        me.pid, me.create_time(), ready=True, step="up", parts=(PartState("api", "up", 5, 1.5, 2, "x"),)
    )
    state.write(tmp_path / "state.json", written)
    assert state.read(tmp_path / "state.json") == written
    assert written.alive
    assert not replace(written, started_at=me.create_time() - 1).alive
    assert not replace(written, pid=2**22 + 1).alive
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "started_at": 2, "parts": [{}]}'])
def test_a_damaged_state_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert state.read(tmp_path / "state.json") is None


async def test_a_process_that_ended_unwaited_for_is_none_any_more(stranger: subprocess.Popen[bytes]) -> None:
    started = psutil.Process(stranger.pid).create_time()
    assert state.is_same_process(stranger.pid, started)
    stranger.kill()
    await eventually(lambda: psutil.Process(stranger.pid).status() == psutil.STATUS_ZOMBIE, what="its end")
    assert not state.is_same_process(stranger.pid, started)
