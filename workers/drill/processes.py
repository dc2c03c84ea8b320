"""Finding and signalling the processes of one stack, by what they are and not by what a supervisor says."""

import os
import signal
from pathlib import Path

import psutil

from infra.engines.native.process import holder
from workers.bench.idle import belonging
from workers.drill.cases import Victim

_MODULES = {
    Victim.API: "workers.api",
    Victim.ORCHESTRATOR: "workers.orchestrator",
    Victim.MEDIA: "workers.media",
    Victim.HOSTAGENT: "workers.hostagent",
}


class NotRunning(Exception):
    """The victim isn't there to be killed."""


def pid_of(victim: Victim, home: Path) -> int:
    """The process of a victim in the stack of `home`.

    Raises:
        NotRunning: There is none at the moment.
    """
    if victim is Victim.ENGINE:
        found = [pid for folder in (home / "engines").glob("*/") if (pid := holder(folder))]
    elif victim is Victim.POSTGRES:
        files = home.glob("postgres/**/postmaster.pid")
        found = [int(path.read_text().split()[0]) for path in files]
    elif victim is Victim.TEMPORAL:
        found = [process.pid for process in belonging(home) if "start-dev" in _arguments(process)]
    else:
        found = [process.pid for process in belonging(home) if _MODULES[victim] in _arguments(process)]
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


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []
