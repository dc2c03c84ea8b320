"""A real Postgres for tests: one server a session, one database a test, copied from a migrated template."""

import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres

_START_S = 30.0
_TEMPLATE = "holdfast_template"


class PostgresServer:
    """One server, as the embedded stack runs it, in a folder of its own."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """Prepare a server; `durable` keeps fsync on, for tests of what survives."""
        self._folder = folder
        self._embedded = EmbeddedPostgres(Layout(folder))
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(cls, *, durable: bool = False) -> Self:
        """A new server, started, in a new temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))  # a socket's path has at most 107 bytes
        folder.chmod(0o755)  # run by root, the server is another user's, who has to get at its data
        server = cls(folder, durable=durable)
        server._embedded.prepare()
        server.start()
        return server

    def conninfo(self, database: str = "postgres") -> str:
        """How to reach a database of this server."""
        return self._embedded.conninfo(database)

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._embedded.argv(),
                    *("-c", f"fsync={'on' if self._durable else 'off'}", "-c", "max_connections=200"),
                ],
                stdout=log,
                stderr=log,
                user=self._embedded.user,
                group=self._embedded.group,
                start_new_session=True,  # Ctrl-C of the test run is not for the server
            )
        deadline = time.monotonic() + _START_S
        while not self._embedded.answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"Postgres did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)  # a poll with the deadline above

    def kill(self) -> None:
        """Crash it: SIGKILL to the postmaster, whose children notice and leave."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it as an operator would, without waiting for clients."""
        self._end(signal.SIGINT)

    def remove(self) -> None:
        """Stop it and delete all that it wrote."""
        if self._process is not None:
            self._end(signal.SIGINT)
        shutil.rmtree(self._folder)

    def create_database(self, template: str = _TEMPLATE) -> str:
        """A new database like the template; its name."""
        name = f"t_{uuid.uuid4().hex}"
        self._admin(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        return name

    def create_template(self) -> str:
        """An empty database named as the template; its conninfo, to be migrated by the caller."""
        self._admin(sql.SQL("create database {}").format(sql.Identifier(_TEMPLATE)))
        return self.conninfo(_TEMPLATE)

    def drop_database(self, name: str) -> None:
        """Drop it, with whoever is still connected."""
        self._admin(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _admin(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(statement)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(timeout=_START_S)
        self._process = None
