"""Ports, secrets and settings of a stack: chosen once, kept, and private."""

import json
import socket
from pathlib import Path

import pytest

from infra.local import ports, secret
from infra.local.layout import Layout
from infra.local.stack import StackNotStartedError, as_environment, with_stack
from infra.settings import Settings


def taken(port: int = 0) -> socket.socket:
    """A listener, as a server is one."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_ports_are_kept_while_they_are_free(tmp_path: Path) -> None:
    first = ports.choose(tmp_path / "ports.json")
    assert len(set(first.model_dump().values())) == len(type(first).model_fields)
    assert ports.choose(tmp_path / "ports.json") == first
    assert ports.read(tmp_path / "ports.json") == first


def test_a_port_that_is_taken_meanwhile_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    first = ports.choose(tmp_path / "ports.json")
    with taken(first.temporal):
        second = ports.choose(tmp_path / "ports.json")
    assert second.temporal != first.temporal
    assert second.model_copy(update={"temporal": first.temporal}) == first


def test_two_stacks_run_side_by_side(tmp_path: Path) -> None:
    one = ports.choose(tmp_path / "one.json")
    listeners = [taken(port) for port in one.model_dump().values()]
    try:
        other = ports.choose(tmp_path / "other.json")
        assert not set(one.model_dump().values()) & set(other.model_dump().values())
    finally:
        for listener in listeners:
            listener.close()


def test_a_fixed_port_is_taken_as_told_or_refused(tmp_path: Path) -> None:
    with taken() as listener:
        wanted = listener.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            ports.choose(tmp_path / "ports.json", api=wanted)
    assert ports.choose(tmp_path / "ports.json", api=wanted).api == wanted


def test_a_damaged_file_of_ports_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text('{"api": 1')
    assert ports.read(tmp_path / "ports.json") is None
    ports.choose(tmp_path / "ports.json")


def test_secrets_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    made = secret.ensure(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(set(made.values())) == len(secret.NAMES)
    assert secret.ensure(path) == made
    assert [entry.name for entry in tmp_path.iterdir()] == ["secrets.json"]


def test_a_secret_that_a_newer_version_needs_is_added(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"host_token": "kept"}))
    made = secret.ensure(path)
    assert made["host_token"] == "kept"
    assert set(made) == set(secret.NAMES)
    assert path.stat().st_mode & 0o777 == 0o600


def test_parts_set_elsewhere_stay_elsewhere(tmp_path: Path) -> None:
    own = Settings(
        home=tmp_path, database_url="postgresql:///mine", temporal_address="far:7233", host_token="mine"
    )
    full = with_stack(own, ports.choose(tmp_path / "ports.json"))
    assert full.database_url == own.database_url
    assert (full.temporal_address, full.temporal_ui_url) == ("far:7233", None)
    assert full.host_token.get_secret_value() == "mine"
    assert full.session_secret.get_secret_value()


def test_a_child_reads_the_very_settings_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    ports.choose(Layout(tmp_path).run / "ports.json")
    full = with_stack(Settings(home=tmp_path, cpu_threads=3, legacy_credit_status=True))
    for name, value in as_environment(full).items():
        monkeypatch.setenv(name, value)
    assert Settings() == full


def test_a_stack_that_never_started_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StackNotStartedError, match="never started"):
        with_stack(Settings(home=tmp_path))
