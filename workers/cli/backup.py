"""`holdfast backup` and `restore`: the embedded stack as one file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from infra.local import backup as stacks
from infra.local.archive import ArchiveDamagedError, Manifest
from infra.local.layout import Layout
from infra.local.postgres import PostgresUnusableError
from infra.settings import Settings
from workers.cli.console import fail, progress, results
from workers.supervisor import control


def backup(
    file: Annotated[Path, typer.Argument(help="Made; holds secrets, so only its owner may read it.")],
) -> None:
    """Write database, histories, blobs and secrets of the stopped stack to one file."""
    settings = _embedded()
    store_is_here = settings.object_store_url is None
    with _told(settings), progress("Backup") as say:
        made = stacks.back_up(Layout(settings.home), file.absolute(), store_is_here=store_is_here, say=say)
    results.print(f"{file}: {_contents(made)}")
    if not store_is_here:
        results.print("Blobs are not in it: they lie in the object store that HOLDFAST_OBJECT_STORE_URL names.")


def restore(
    file: Annotated[Path, typer.Argument(help="What `holdfast backup` wrote.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Data that are there go, once all succeeded.")
    ] = False,
    without_temporal: Annotated[
        bool, typer.Option("--without-temporal", help="Leave histories out; open generations go on all the same.")
    ] = False,
) -> None:
    """Make the stopped stack what it was when the file was written. The next `up` sweeps before it admits."""
    settings = _embedded()
    with _told(settings), progress("Restore") as say:
        made = stacks.restore(
            Layout(settings.home), file.absolute(), replace=replace, with_temporal=not without_temporal, say=say
        )
    results.print(f"Restored {_contents(made)}, of {made.created_at:%Y-%m-%d %H:%M} UTC.")
    results.print("Start it: holdfast up --detach")


def _embedded() -> Settings:
    settings = Settings()
    elsewhere = [
        name
        for name, value in (
            ("HOLDFAST_DATABASE_URL", settings.database_url),
            ("HOLDFAST_TEMPORAL_ADDRESS", settings.temporal_address),
        )
        if value is not None
    ]
    if elsewhere:
        fail(
            f"Only the embedded stack can be backed up so; {' and '.join(elsewhere)} name parts of your own.",
            "Back those up with their own tools.\nAfter restoring any of them: holdfast reconcile",
        )
    return settings


@contextlib.contextmanager
def _told(settings: Settings) -> Iterator[None]:
    """Work on the stopped stack, with failures told as such."""
    try:
        with control.stopped(settings):
            yield
    except control.StackFailedError as error:
        fail(str(error))
    except stacks.BackupRefusedError as error:
        fail(f"Refused: {error}")
    except ArchiveDamagedError as error:
        fail(f"This backup can't be used: {error}. Nothing was changed.", "Use another copy of it.")
    except (PostgresUnusableError, OSError) as error:
        fail(f"Failed: {error}", "Everything is as it was. Is the disk full? holdfast doctor")


def _contents(made: Manifest) -> str:
    return f"{len(made.files)} files, {made.size / 1024**2:.1f} MiB"
