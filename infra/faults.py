"""Deliberate crash points. Tests and drills name one in `HOLDFAST_FAULT_POINTS`; everybody else passes by.

A point kills the process as `kill -9` would, once: a marker under `home/faults` is made first, so that the
process that a supervisor starts in its place, in the same environment, passes.
"""

import os
import signal
from functools import cache
from pathlib import Path

from infra.settings import Settings


@cache
def _armed() -> tuple[frozenset[str], Path]:
    settings = Settings()
    names = frozenset(name.strip() for name in settings.fault_points.split(",") if name.strip())
    return names, settings.home / "faults"


def point(name: str) -> None:
    """Die here, without any cleanup, when `name` is armed and has not fired yet."""
    names, folder = _armed()
    if name not in names:
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
