"""Starting and stopping a supervisor from the command line, and asking what it says."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from infra.engines.native.process import stop_engines
from infra.local.layout import Layout
from infra.settings import Settings
from workers.supervisor import state
from workers.supervisor.part import end_orphan
from workers.supervisor.plan import STOP_ORDER
from workers.supervisor.sole import ALREADY_RUNS, sole_supervisor
from workers.supervisor.state import StackState

START_S = 180.0
STOP_S = 150.0
_LOOK_S = 0.05
_ORPHAN_S = 20.0

Say = Callable[[str], None]


class StackFailedError(Exception):
    """The stack did not come up; the message says why and where to look."""


def current(settings: Settings) -> StackState | None:
    """The running supervisor's word; None when none runs."""
    told = state.read(_state_file(settings))
    return told if told is not None and told.alive else None


def start(settings: Settings, say: Say) -> StackState:
    """Have the stack up: start a supervisor where none runs, and wait until it says ready.

    Args:
        settings: The operator's.
        say: Called with each new step.

    Raises:
        StackFailedError: It gave up or took too long.
    """
    running = current(settings)
    process = _spawn(settings) if running is None else None
    deadline = time.monotonic() + START_S
    for told in _steps(settings, say, deadline):
        if process is not None and process.poll() == ALREADY_RUNS:
            process = None  # somebody else's start was quicker; that one is followed
        if process is not None and process.poll() is not None:
            log = Layout(settings.home).logs / "supervisor.log"
            raise StackFailedError(f"The supervisor ended while it was {told.step or 'starting'}. See {log}")
        if told.failure:
            stop(settings, lambda _: None)
            raise StackFailedError(f"{told.failure}\nSee the logs in {Layout(settings.home).logs}")
        if told.ready:
            return told
    raise StackFailedError(f"The stack was not up within {START_S:.0f} s. See {Layout(settings.home).logs}")


def stop(settings: Settings, say: Say) -> bool:
    """Take the stack down; False when nothing ran. Also ends what a killed supervisor left behind.

    Raises:
        StackFailedError: The supervisor doesn't end.
    """
    running = current(settings)
    if running is None:
        left = state.read(_state_file(settings))
        parts = {part.name: part for part in left.parts} if left else {}
        ended = [end_orphan(parts[name], patience_s=_ORPHAN_S) for name in STOP_ORDER if name in parts]
        return bool(stop_engines(settings.home)) or any(ended)
    os.kill(running.pid, signal.SIGTERM)
    for _ in _steps(settings, say, time.monotonic() + STOP_S):
        if not running.alive:
            return True
    raise StackFailedError(f"The supervisor (pid {running.pid}) did not end within {STOP_S:.0f} s.")


@contextmanager
def stopped(settings: Settings) -> Iterator[None]:
    """Insist that nothing runs, and that nothing starts meanwhile; for work on the data themselves.

    Raises:
        StackFailedError: The stack runs.
    """
    running = StackFailedError("The stack is running. Stop it first: holdfast down")
    if current(settings) is not None:
        raise running
    stop(settings, lambda _: None)  # what a killed supervisor left behind writes to the data still
    try:
        with sole_supervisor(Layout(settings.home)):
            yield
    except BlockingIOError as error:
        raise running from error


def _spawn(settings: Settings) -> psutil.Popen:
    layout = Layout(settings.home)
    for folder in (layout.home, layout.run, layout.logs):
        folder.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | {"HOLDFAST_HOME": str(settings.home), "PYTHONSAFEPATH": "1"}
    with (layout.logs / "supervisor.log").open("ab") as log:
        return psutil.Popen(
            [sys.executable, "-m", "workers.supervisor.supervisor"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )


def _steps(settings: Settings, say: Say, deadline: float) -> Iterator[StackState]:
    """What the supervisor says, until the deadline; `say` hears each step once."""
    heard = ""
    while time.monotonic() < deadline:
        told = state.read(_state_file(settings))
        if told is not None and told.alive and told.step != heard:
            heard = told.step
            say(heard)
        yield told if told is not None and told.alive else StackState(pid=0, started_at=0)
        time.sleep(_LOOK_S)


def _state_file(settings: Settings) -> Path:
    return Layout(settings.home).run / "state.json"
