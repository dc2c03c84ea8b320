"""One supervisor a home folder: a lock that its process holds, and the system releases when that ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from infra.local.layout import Layout

ALREADY_RUNS = 3
"""Exit status of a supervisor that found another one."""


@contextlib.contextmanager
def sole_supervisor(layout: Layout) -> Iterator[None]:
    """Be the only one of this home.

    Raises:
        BlockingIOError: Another one runs.
    """
    for folder in (layout.home, layout.run, layout.logs):
        folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(layout.run / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
