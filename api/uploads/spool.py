"""Temporary files of requests. Each lives exactly as long as its request; a killed process's are swept."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STALE_S = 3600
"""No request lives this long; what is older was left by a process that was killed."""


class Spool:
    """A folder beside the store, so that a finished file is linked into its place and not copied."""

    def __init__(self, home: Path) -> None:
        """Makes the folder."""
        self.folder = home / "spool"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def request(self) -> Iterator[Path]:
        """A folder of one request's own, removed at the end whatever happened."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> int:
        """Remove what killed processes left; how many folders."""
        removed = 0
        for folder in self.folder.iterdir():
            try:
                stale = time.time() - folder.stat().st_mtime > STALE_S
            except FileNotFoundError:
                continue
            if stale:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return removed
