"""The machine and the installation: Python, programs, disk, home, secrets. Nothing has to run for these."""

import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from infra.local import postgres, temporal
from infra.local.layout import Layout
from infra.settings import Settings
from workers.doctor.check import Check, right, wrong

PYTHON_MIN = (3, 11)
DISK_FREE_MIN = 2 * 1024**3
"""Bytes. A day of a busy stack's logs, histories and results; Postgres stops altogether on a full disk."""
PRIVATE = 0o600
_PROGRAM_S = 30.0
_AGAIN = "Install again: remove the folder .venv and run ./dev"


def examine(settings: Settings) -> Iterator[Check]:
    """All of it, in the order in which one failure explains the next."""
    layout = Layout(settings.home)
    yield python()
    if settings.database_url is None:
        yield program("postgres program", lambda: postgres.programs() / "postgres", "--version")
    if settings.temporal_address is None:
        yield program("temporal program", temporal.executable, "--version")
    yield home(layout)
    yield disk(layout)
    yield secrets(layout)
    yield restored(layout)


def python() -> Check:
    """New enough to run us; older ones fail in odd places."""
    found = platform.python_version()
    if sys.version_info < PYTHON_MIN:
        return wrong("python", found, "Install Python 3.11 or later, remove the folder .venv and run ./dev")
    return right("python", found)


def program(name: str, find: Callable[[], Path], argument: str) -> Check:
    """A wheel's program is there and runs on this machine."""
    try:
        path = find()
        done = subprocess.run(
            [str(path), argument], capture_output=True, text=True, timeout=_PROGRAM_S, check=True
        )
    except (OSError, subprocess.SubprocessError, postgres.PostgresUnusableError) as error:
        return wrong(name, str(error), _AGAIN)
    return right(name, done.stdout.strip())


def home(layout: Layout) -> Check:
    """Files can be made under the home folder."""
    nearest = _existing(layout.home)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        return wrong("home", f"{nearest}: {error.strerror}", "Make it writable, or set HOLDFAST_HOME elsewhere")
    return right("home", str(layout.home))


def disk(layout: Layout) -> Check:
    """Room to work in, on whichever disks the data lie."""
    free, where = min((shutil.disk_usage(folder).free, folder) for folder in _folders(layout))
    found = f"{free / 1024**3:.1f} GiB free at {where}"
    if free < DISK_FREE_MIN:
        return wrong("disk", found, f"Free some: {DISK_FREE_MIN / 1024**3:.0f} GiB are needed")
    return right("disk", found)


def secrets(layout: Layout) -> Check:
    """Only their owner may read the stack's secrets. A stack that never started has none yet."""
    try:
        found = layout.secrets.stat()
    except FileNotFoundError:
        return right("secrets", "none yet; made at the first start")
    mode = stat.S_IMODE(found.st_mode)
    if mode != PRIVATE:
        return wrong("secrets", f"mode {mode:04o}", f"chmod 600 {layout.secrets}")
    if found.st_uid != os.geteuid():
        return wrong("secrets", f"belong to user {found.st_uid}", f"Run as that user, or chown {layout.secrets}")
    return right("secrets", f"mode {mode:04o}")


def restored(layout: Layout) -> Check:
    """No restore was cut off in the middle."""
    if layout.restoring.exists():
        return wrong("data", "half restored", "Repeat it: holdfast restore FILE --replace")
    return right("data", "whole")


def _folders(layout: Layout) -> set[Path]:
    return {_existing(layout.home), _existing(layout.postgres)}


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
