"""The embedded Postgres: it starts, keeps its data through whatever happens, and loosens nothing."""

import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from infra.local import layout, postgres
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres, PostgresUnusableError, owner

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")


def modes(path: Path) -> dict[Path, int]:
    """The mode of each folder on the way to `path`."""
    return {folder: folder.stat().st_mode for folder in (path, *path.parents)}


def query(server: EmbeddedPostgres, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.data / "postmaster.pid").read_text().partition("\n")[0])


def test_data_survive_a_stop_and_a_kill(server: EmbeddedPostgres, outside: Path) -> None:
    with server.running(outside / "log"):
        query(server, "create table kept (word text)")
        query(server, "insert into kept values ('before the stop')")
    assert not server.answers()
    assert not server.prepare()
    with server.running(outside / "log"):
        query(server, "insert into kept values ('before the kill')")
        os.kill(postmaster(server), signal.SIGKILL)
    assert not server.prepare()
    with server.running(outside / "log"):
        assert query(server, "select word from kept") == [("before the stop",), ("before the kill",)]
        assert query(server, "show data_checksums") == [("on",)]


def test_an_operators_own_postgres_settings_lead_nobody_astray(
    server: EmbeddedPostgres, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGHOST": "elsewhere", "PGUSER": "somebody", "PGDATABASE": "other"}.items():
        monkeypatch.setenv(name, value)
    server.prepare()
    with server.running(outside / "log"):
        assert server.answers()
        server.dump(outside / "as-told.dump")


def test_no_port_is_opened(server: EmbeddedPostgres, outside: Path) -> None:
    with server.running(outside / "log"):
        assert query(server, "show listen_addresses") == [("",)]


def test_a_dump_restores_what_was(server: EmbeddedPostgres, outside: Path) -> None:
    with server.running(outside / "log"):
        query(server, "create table money (credits int)")
        query(server, "insert into money values (7)")
        server.dump(outside / "dump")
        query(server, "drop table money")
        query(server, "create table later (word text)")
        server.restore(outside / "dump")
        assert query(server, "select credits from money") == [(7,)]
        assert query(server, "select to_regclass('later')") == [(None,)]


def test_a_failed_tool_says_what_it_said(server: EmbeddedPostgres, outside: Path) -> None:
    (outside / "no-dump").write_text("not a dump")
    with (
        server.running(outside / "log"),
        pytest.raises(PostgresUnusableError, match="does not appear to be a valid archive"),
    ):
        server.restore(outside / "no-dump")


def test_a_first_start_that_was_cut_off_is_made_anew(outside: Path) -> None:
    home = outside / "cut-off"
    half = Layout(home).postgres / "data"
    half.mkdir(parents=True)
    (half / "base").write_text("half")
    assert EmbeddedPostgres(Layout(home)).prepare()
    assert (half / "PG_VERSION").exists()


def test_existing_folders_keep_their_modes(outside: Path) -> None:
    parent = outside / "parent"
    home = parent / "home"
    home.mkdir(parents=True)
    home.chmod(0o751)
    before = modes(home)
    EmbeddedPostgres(Layout(home)).prepare()
    assert modes(home) == before
    assert (Layout(home).postgres.stat().st_mode & 0o777) == 0o700


@needs_root
def test_a_private_home_stays_private_and_the_data_go_elsewhere(outside: Path) -> None:
    home = outside / "private" / "home"
    home.mkdir(parents=True)
    home.parent.chmod(0o700)
    before = modes(home)
    server = EmbeddedPostgres(Layout(home))
    old = os.umask(0o077)
    try:
        server.prepare()
    finally:
        os.umask(old)
    with server.running(outside / "log"):
        assert server.answers()
    assert modes(home) == before
    assert home not in server.data.parents
    assert layout.ROOTS_STATE in server.data.parents


@needs_root
def test_programs_that_their_user_cant_reach_are_copied_and_run(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a checkout under root's own folder, which is closed to everybody else."""
    monkeypatch.setattr(postgres, "reachable_by_others", lambda _: False)
    programs = postgres.programs()
    assert programs.is_relative_to(outside / "state")
    user = owner()
    for name in ("initdb", "postgres", "pg_dump", "pg_restore"):
        asked = [str(programs / name), "--version"]
        said = subprocess.run(asked, user=user.uid, group=user.gid, cwd="/", capture_output=True, check=True)
        assert said.stdout.startswith(name.encode())
    assert postgres.programs() == programs, "copied once"


@needs_root
def test_data_do_not_seem_lost_when_their_home_is_closed_later(server: EmbeddedPostgres, outside: Path) -> None:
    home = outside / "home"
    where = Layout(home).postgres
    home.chmod(0o700)
    try:
        assert Layout(home).postgres == where
        with pytest.raises(PostgresUnusableError, match="chmod o\\+x"):
            server.prepare()
    finally:
        home.chmod(0o755)
    assert not server.prepare()


def test_a_long_home_gets_a_short_socket(outside: Path) -> None:
    home = outside / ("long" * 30)
    made = EmbeddedPostgres(Layout(home))
    made.prepare()
    folder = Layout(home).socket
    try:
        with made.running(outside / "log"):
            assert made.answers()
        assert folder.parent == layout.SHORT
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder != Layout(outside / ("LONG" * 30)).socket
    finally:
        folder.rmdir()


def test_what_somebody_put_in_the_sockets_place_is_refused(outside: Path) -> None:
    home = outside / ("trap" * 30)
    folder = Layout(home).socket
    elsewhere = outside / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    try:
        with pytest.raises(PostgresUnusableError, match="not a folder of ours"):
            EmbeddedPostgres(Layout(home)).prepare()
        assert elsewhere.stat().st_uid == os.geteuid()
    finally:
        folder.unlink()


def test_a_dead_servers_number_may_be_somebody_elses_by_now(server: EmbeddedPostgres, outside: Path) -> None:
    with server.running(outside / "log"):
        lock = (server.data / "postmaster.pid").read_text()
        os.kill(postmaster(server), signal.SIGKILL)
    other = subprocess.Popen(["sleep", "600"], user=owner().uid, cwd="/")
    try:
        path = server.data / "postmaster.pid"
        path.write_text(f"{other.pid}\n{lock.partition(chr(10))[2]}")
        server.prepare()
        with server.running(outside / "log"):
            assert server.answers()
            server.prepare()
            assert path.exists(), "the lock of a server that runs was removed"
    finally:
        other.kill()
        other.wait()
