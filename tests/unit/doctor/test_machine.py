"""The doctor's look at machine and installation: each fault is named, with its cure."""

import json
from pathlib import Path

import pytest
import yaml

from infra.local import secret
from infra.local.layout import Layout
from infra.local.postgres import PostgresUnusableError
from infra.settings import PROJECT, Settings
from workers.doctor import examination, machine, parts
from workers.doctor.check import Check
from workers.supervisor.state import PartState, StackState


def test_a_sound_installation_has_nothing_wrong(tmp_path: Path) -> None:
    checks = list(machine.examine(Settings(home=tmp_path / "not" / "yet")))
    assert [check for check in checks if not check.ok] == []
    assert {"python", "postgres program", "temporal program", "home", "disk", "secrets", "data"} == {
        check.name for check in checks
    }
    assert not (tmp_path / "not").exists(), "looking must not make anything"


def test_programs_of_parts_elsewhere_are_not_asked_for(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url="postgresql:///x", temporal_address="far:7233")
    assert not any(check.name.endswith("program") for check in machine.examine(settings))


@pytest.mark.parametrize("path", ["/nowhere/at/all", "/bin/false"])
def test_a_program_that_is_missing_or_fails_is_wrong(path: str) -> None:
    found = machine.program("x", lambda: Path(path), "--version")
    assert not found.ok
    assert "./dev" in found.cure


def test_a_wheel_that_is_not_installed_is_wrong() -> None:
    def find() -> Path:
        raise PostgresUnusableError("The wheel isn't installed.")

    assert machine.program("x", find, "--version").found == "The wheel isn't installed."


def test_secrets_that_others_may_read_are_wrong(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    secret.ensure(layout.secrets)
    assert machine.secrets(layout).ok
    layout.secrets.chmod(0o640)
    found = machine.secrets(layout)
    assert (found.ok, found.found) == (False, "mode 0640")
    assert found.cure == f"chmod 600 {layout.secrets}"


def test_a_half_restored_home_is_wrong(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.run.mkdir()
    assert machine.restored(layout).ok
    layout.restoring.write_text("backup.tar.gz")
    assert "--replace" in machine.restored(layout).cure


def test_a_full_disk_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.disk(Layout(tmp_path)).ok
    monkeypatch.setattr(machine, "DISK_FREE_MIN", 2**60)
    assert not machine.disk(Layout(tmp_path)).ok


def test_a_stack_with_a_part_down_is_wrong_and_says_which() -> None:
    up, down = PartState("api", "up", 1, 1.0), PartState("media", "restarting", note="ended with 1")
    assert parts.stack(StackState(1, 1.0, ready=True, parts=(up,))).ok
    found = parts.stack(StackState(1, 1.0, ready=True, parts=(up, down)))
    assert (found.ok, found.found) == (False, "media is restarting (ended with 1)")
    assert not parts.stack(StackState(1, 1.0, ready=False, step="starting", parts=(up,))).ok
    assert "holdfast up" in parts.stack(None).cure


async def names(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in await examination.examine(settings)}


async def test_a_stack_that_is_down_is_one_wrong_line_and_not_ten(tmp_path: Path) -> None:
    wrong = [check.name for check in (await names(Settings(home=tmp_path))).values() if not check.ok]
    assert wrong == ["stack"]


async def test_a_misspelt_key_of_temporal_yaml_is_named(tmp_path: Path) -> None:
    file = yaml.safe_load((PROJECT / "temporal.yaml").read_text())
    file["namespace"]["retention_dasy"] = 3
    path = tmp_path / "temporal.yaml"
    path.write_text(yaml.safe_dump(file))
    found = (await names(Settings(home=tmp_path, temporal_file=path)))["temporal.yaml keys"]
    assert not found.ok
    assert "namespace.retention_dasy" in found.found


async def test_parts_elsewhere_that_are_away_are_each_wrong(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        database_url=f"postgresql:///x?host={tmp_path}",
        temporal_address="127.0.0.1:1",
        api_public_url="http://127.0.0.1:1",
    )
    found = await names(settings)
    assert {name for name, check in found.items() if not check.ok} == {"database", "temporal", "api", "cards"}
    assert found["store"].ok
    assert all(check.cure for check in found.values() if not check.ok)
    assert json.dumps([check.found for check in found.values()])


async def test_a_store_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(home=tmp_path, object_store_url=f"file://{tmp_path}/file/below")
    (found,) = await parts.store(settings)
    assert not found.ok
