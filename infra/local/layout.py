"""Where the embedded stack keeps what, under one home folder."""

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

SOCKET_FOLDER_MAX = 85
"""Unix sockets take 107 bytes of path on Linux; Postgres adds `/.s.PGSQL.5432.lock`."""
ROOTS_STATE = Path("/var/lib/holdfast")
"""For a stack run by root whose home the unprivileged database user can't reach."""
OWN = re.compile(
    r"(demo|drills|engines|faults|host|logs|media|postgres|run|secrets|spool|store|temporal)([.-].*)?", re.DOTALL
)
"""What parts make right under a home, with their variants as `media-x1` and `store.replaced`."""
SHORT = Path("/tmp")  # noqa: S108 - the folder made in it is checked to be ours
"""For sockets whose home is too long. Not TMPDIR, in which a supervisor and a later command line may differ."""


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
        """Postgres' data; elsewhere when root runs the stack and the database's user couldn't get at it.

        Where data lie already decides: a mode that somebody changed later must not make them seem lost.
        """
        beside, apart = self.home / "postgres", ROOTS_STATE / self.key / "postgres"
        if os.geteuid() != 0 or (beside / "data").exists():
            return beside
        if (apart / "data").exists() or not reachable_by_others(self.home):
            return apart
        return beside

    @property
    def socket(self) -> Path:
        """The folder of Postgres' socket: beside its data, or in `SHORT` when that is too long."""
        beside = self.postgres / "socket"
        if len(os.fsencode(beside)) <= SOCKET_FOLDER_MAX:
            return beside
        return SHORT / f"holdfast-{os.geteuid()}-{self.key}"

    @property
    def host(self) -> Path:
        """The card host's journal and working files."""
        return self.home / "host"

    @property
    def engines(self) -> Path:
        """One folder an engine: its socket, lock and results."""
        return self.home / "engines"

    @property
    def restoring(self) -> Path:
        """Is there while a restore is under way, and stays when it was cut off: then nothing may start."""
        return self.run / "restoring"

    @property
    def places(self) -> tuple[Path, ...]:
        """Every folder that holds this stack's own, whoever runs it; some may not be there."""
        return (self.socket, ROOTS_STATE / self.key, self.home)

    def strangers(self) -> list[str]:
        """Names under the home that no part of a stack made; deleting the home would lose them."""
        if not self.home.exists():
            return []
        return sorted(entry.name for entry in self.home.iterdir() if not OWN.fullmatch(entry.name))

    @property
    def key(self) -> str:
        """Tells stacks apart outside their homes."""
        return hashlib.sha256(os.fsencode(self.home.resolve())).hexdigest()[:16]


def reachable_by_others(path: Path) -> bool:
    """Whether any user may walk to `path`: each existing folder on the way lets others pass."""
    absolute = path.resolve()
    existing = [folder for folder in (absolute, *absolute.parents) if folder.exists()]
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in existing)
