"""Where the embedded stack keeps what, under one home folder."""

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOCKET_FOLDER_MAX = 85
"""Unix sockets take 107 bytes of path on Linux; Postgres adds `/.s.PGSQL.5432.lock`."""
ROOTS_STATE = Path("/var/lib/holdfast")
"""For a stack run by root whose home the unprivileged database user can't reach."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one stack. Nothing is made by asking."""

    home: Path

    @property
    def run(self) -> Path:
        """Ports, states and locks."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """One file a part."""
        return self.home / "logs"

    @property
    def secrets(self) -> Path:
        """Made once; mode 0600."""
        return self.home / "secrets.json"

    @property
    def temporal(self) -> Path:
        """The Temporal server's database."""
        return self.home / "temporal"

    @property
    def store(self) -> Path:
        """Blobs, when no object store is configured."""
        return self.home / "store"

    @property
    def postgres(self) -> Path:
        """Postgres' data; elsewhere when root runs the stack and the database's user couldn't get at it."""
        if os.geteuid() == 0 and not reachable_by_others(self.home):
            return ROOTS_STATE / self.key / "postgres"
        return self.home / "postgres"

    @property
    def socket(self) -> Path:
        """The folder of Postgres' socket: beside its data, or in the temporary folder when that is too long."""
        beside = self.postgres / "socket"
        if len(os.fsencode(beside)) <= SOCKET_FOLDER_MAX:
            return beside
        return Path(tempfile.gettempdir()) / f"holdfast-{os.geteuid()}-{self.key}"

    @property
    def key(self) -> str:
        """Tells stacks apart outside their homes."""
        return hashlib.sha256(os.fsencode(self.home.resolve())).hexdigest()[:16]


def reachable_by_others(path: Path) -> bool:
    """Whether any user may walk to `path`: each existing folder on the way lets others pass."""
    absolute = path.resolve()
    existing = [folder for folder in (absolute, *absolute.parents) if folder.exists()]
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in existing)
