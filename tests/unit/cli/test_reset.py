"""`holdfast reset` deletes a stack, and nothing else."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.local import layout
from infra.local.layout import Layout
from workers.cli.app import app


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with something of each kind in it."""
    folder = tmp_path / "home"
    for name in ("run", "logs", "store", "store.replaced", "media-x1", "temporal", "demo"):
        (folder / name).mkdir(parents=True)
    (folder / "secrets.json").write_text("{}")
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    return folder


def test_a_stack_is_deleted_whole(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "ROOTS_STATE", tmp_path / "state")
    apart = tmp_path / "state" / Layout(home).key
    (apart / "postgres" / "data").mkdir(parents=True)
    answer = CliRunner().invoke(app, ["reset", "--yes"])
    assert answer.exit_code == 0, answer.output
    assert not home.exists()
    assert not apart.exists()
    assert apart.parent.exists(), "other stacks' data lie there too"


def test_a_home_that_holds_anything_else_is_left_alone(home: Path) -> None:
    (home / "thesis.txt").write_text("ten years of work")
    answer = CliRunner().invoke(app, ["reset", "--yes"])
    assert answer.exit_code == 1
    assert "thesis.txt" in answer.output
    assert (home / "thesis.txt").read_text() == "ten years of work"
    assert (home / "store").is_dir()


def test_nothing_is_deleted_without_a_yes(home: Path) -> None:
    answer = CliRunner().invoke(app, ["reset"], input="n\n")
    assert answer.exit_code == 1
    assert (home / "store").is_dir()


def test_a_stack_that_never_was_is_no_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(home / "nothing"))
    assert CliRunner().invoke(app, ["reset", "--yes"]).exit_code == 0
    assert (home / "store").is_dir()
