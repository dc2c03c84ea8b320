"""Commands that can't do what they are asked say so, with what to do, and end with 1."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from workers.cli.app import whole


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing was ever started."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(whole(), list(arguments))


@pytest.mark.parametrize(
    "command", [("reconcile",), ("ledger", "audit"), ("temporal", "apply"), ("account", "grant")]
)
def test_a_stack_that_never_started_is_said_so(command: tuple[str, ...]) -> None:
    arguments = {"grant": ("acme", "5", "--reason", "x")}.get(command[-1], ())
    found = run(*command, *arguments)
    assert found.exit_code == 1
    assert "holdfast up" in found.stderr


def test_status_of_nothing_is_an_object_all_the_same() -> None:
    found = run("status", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout) == {"running": False, "ready": False, "parts": [], "addresses": {}}


def test_the_doctor_prints_one_object_with_every_cure() -> None:
    found = run("doctor", "--json")
    assert found.exit_code == 1
    said = json.loads(found.stdout)
    assert said["ok"] is False
    assert all(set(check) == {"name", "ok", "found", "cure"} for check in said["checks"])
    assert [check["name"] for check in said["checks"] if not check["ok"]] == ["stack"]


def test_logs_of_an_unknown_part_name_the_known_ones(home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "api.log").write_text("line\n")
    found = run("logs", "apj")
    assert (found.exit_code, "api" in found.stderr) == (1, True)


@pytest.mark.parametrize("command", ["backup", "restore"])
@pytest.mark.parametrize("name", ["HOLDFAST_DATABASE_URL", "HOLDFAST_TEMPORAL_ADDRESS"])
def test_parts_of_ones_own_are_not_backed_up_by_us(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "somewhere:1")
    found = run(command, str(tmp_path / "file"))
    assert found.exit_code == 1
    assert name in found.stderr
    assert "holdfast reconcile" in found.stderr
    assert not (tmp_path / "file").exists()


def test_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    found = run("backup", str(tmp_path / "file"))
    assert (found.exit_code, "HOLDFAST_HOME" in found.stderr) == (1, True)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("data", [None, b"", b"no backup"])
def test_what_is_no_backup_changes_nothing(home: Path, tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "file").write_bytes(data)
    assert run("restore", str(tmp_path / "file")).exit_code == 1
    assert sorted(path.name for path in home.iterdir()) == ["logs", "run"]
