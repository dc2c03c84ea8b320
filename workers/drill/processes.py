"""Finding and signalling the processes of one stack."""

import os
import signal
from pathlib import Path

import psutil

from infra.engines.native.identity import holder
from infra.local.layout import Layout
from workers.drill.cases import Victim
from workers.supervisor import state


class NotRunning(Exception):
    """The victim isn't there to be killed."""


def pid_of(victim: Victim, home: Path) -> int:
    """The process of a victim in the stack of `home`.

    Raises:
        NotRunning: There is none at the moment.
    """
    if victim is Victim.ENGINE:
        found = [pid for folder in (home / "engines").glob("*/") if (pid := holder(folder))]
    else:
        stack = state.read(Layout(home).run / "state.json")
        found = [part.pid for part in stack.parts if part.name == victim and part.pid] if stack else []
    found = [pid for pid in found if psutil.pid_exists(pid)]
    if not found:
        raise NotRunning(f"{victim} has no process")
    return found[0]


def kill(victim: Victim, home: Path) -> int:
    """End a victim as `kill -9` does; the pid that it had.

    Raises:
        NotRunning: There is none at the moment.
    """
    pid = pid_of(victim, home)
    os.kill(pid, signal.SIGKILL)
    return pid


def stop(victim: Victim, home: Path) -> int:
    """Stop a victim's process where it is, until `resume`; its pid."""
    pid = pid_of(victim, home)
    os.kill(pid, signal.SIGSTOP)
    return pid


def resume(pid: int) -> None:
    """Let a stopped process go on; nothing when it is gone."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
