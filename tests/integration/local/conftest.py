"""Homes that Postgres' unprivileged user can reach, and a place of root's that isn't the system's own."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import layout, postgres
from infra.local.layout import Layout
from infra.local.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def outside() -> Iterator[Path]:
    """A folder that anybody may pass through; pytest's own are for their owner alone."""
    folder = Path(tempfile.mkdtemp(prefix="hf-local-", dir="/tmp"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        for module in (layout, postgres):
            patch.setattr(module, "ROOTS_STATE", folder / "state")
        yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(outside: Path) -> EmbeddedPostgres:
    """A cluster with our database, not running."""
    home = outside / "home"
    home.mkdir()
    made = EmbeddedPostgres(Layout(home))
    assert made.prepare()
    with made.running(home / "log"):
        made.create_database()
    return made
