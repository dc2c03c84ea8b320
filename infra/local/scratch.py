"""A Postgres of one command's own, as the embedded stack runs it, thrown away afterwards."""

import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from infra.db.queries import load
from infra.local.layout import SHORT, Layout
from infra.local.postgres import DATABASE, EmbeddedPostgres, programs

_QUERIES = load(__package__, "scratch.sql")
_OPTIONS = "-c search_path=holdfast,public"


class PgbenchFailed(Exception):
    """`pgbench` did not run to its end; the message has its words."""


class ScratchServer:
    """One server, running."""

    def __init__(self, embedded: EmbeddedPostgres) -> None:
        """Wrap a server that runs."""
        self._embedded = embedded

    def conninfo(self, database: str = DATABASE) -> str:
        """How to reach a database."""
        return self._embedded.conninfo(database)

    def create_database(self, template: str = DATABASE) -> str:
        """A new database like the template, to which nobody may be connected; its name."""
        name = f"scratch_{uuid.uuid4().hex}"
        self._run("create_database", name=name, template=template)
        return name

    def drop_database(self, name: str) -> None:
        """Drop it, with whoever is still connected."""
        self._run("drop_database", name=name)

    def _run(self, query: str, **names: str) -> None:
        identifiers = {key: sql.Identifier(name) for key, name in names.items()}
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(_QUERIES[query].text).format(**identifiers))

    def pgbench(self, *arguments: str, within_s: float, database: str = DATABASE) -> str:
        """Run `pgbench` on a database; what it printed.

        Raises:
            PgbenchFailed: It failed, or a transaction of it did.
        """
        done = self.start_pgbench(*arguments, database=database)
        return finish_pgbench(done, within_s)

    def start_pgbench(self, *arguments: str, database: str = DATABASE) -> subprocess.Popen[str]:
        """Start it; `finish_pgbench` waits."""
        reach = conninfo_to_dict(self.conninfo(database))
        return subprocess.Popen(
            [str(programs() / "pgbench"), *arguments, database],
            env={
                "PGHOST": str(reach["host"]),
                "PGPORT": str(reach["port"]),
                "PGUSER": str(reach["user"]),
                "PGOPTIONS": _OPTIONS,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def finish_pgbench(process: subprocess.Popen[str], within_s: float) -> str:
    """What it printed.

    Raises:
        PgbenchFailed: It failed, or a transaction of it did.
    """
    try:
        said, errors = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise PgbenchFailed(f"pgbench did not end within {within_s:g} s") from None
    if process.returncode or "ERROR" in errors or "aborted" in errors:
        raise PgbenchFailed(errors.strip()[-2000:])
    return said


@contextmanager
def scratch_server(*settings: str) -> Iterator[ScratchServer]:
    """Run one in a new folder, on a free socket, with an empty database of the stack's name.

    Args:
        settings: As `fsync=off`, beyond those of the embedded stack.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-scratch-", dir=SHORT))
    folder.chmod(0o755)  # run by root, the server is another user's, who has to get at its data
    try:
        embedded = EmbeddedPostgres(Layout(folder))
        embedded.prepare()
        with embedded.running(folder / "log", *_flags(settings)):
            embedded.create_database()
            yield ScratchServer(embedded)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flags(settings: Sequence[str]) -> list[str]:
    return [flag for setting in settings for flag in ("-c", setting)]
