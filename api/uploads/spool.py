"""Temporary files of requests. Each lives exactly as long as its request; a killed process's are swept."""

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "lock"


class Spool:
    """A folder of one process's own, beside the store, so that a finished file is linked into its place.

    The process holds a lock on it. The kernel gives a lock back when its process ends, however it ends, so
    whoever can take a folder's lock knows that nobody uses the folder.
    """

    def __init__(self, home: Path) -> None:
        """Makes the folder."""
        self._root = home / "spool"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made under another name and locked before it is renamed, so that no sweep finds it without its lock.
        made = Path(tempfile.mkdtemp(prefix=".", dir=self._root))
        self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.folder = made.rename(self._root / made.name[1:])
        self._numbers = itertools.count()

    @contextmanager
    def request(self) -> Iterator[Path]:
        """A folder of one request's own, removed at the end whatever happened."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def files(self) -> Iterator[Callable[[], Path]]:
        """Gives paths for one request's own files, which are removed at the end whatever happened.

        Making and removing a folder for each request takes as long as reading a small form.
        """
        given: list[Path] = []

        def path() -> Path:
            given.append(self.folder / str(next(self._numbers)))
            return given[-1]

        try:
            yield path
        finally:
            for each in given:
                each.unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove what killed processes left; how many folders."""
        return sum(self._remove_if_left(folder) for folder in self._root.glob("[!.]*"))

    def close(self) -> None:
        """Remove the folder, at the process's end."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _remove_if_left(self, folder: Path) -> bool:
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # its process is removing it right now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(lock)
