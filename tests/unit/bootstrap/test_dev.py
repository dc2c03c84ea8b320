"""`./dev` before anything is installed: which environment it trusts, where it installs from, what it locks."""

import importlib.machinery
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from infra.settings import PROJECT


@pytest.fixture
def dev(tmp_path: Path) -> ModuleType:
    """The script as a module, with its environment in a folder of the test's own."""
    loader = importlib.machinery.SourceFileLoader("dev", str(PROJECT / "dev"))
    spec = importlib.util.spec_from_loader("dev", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    venv = tmp_path / ".venv"
    vars(module).update(VENV=venv, MAKER=venv / "holdfast.maker", STAMP=venv / "holdfast.stamp")
    return module


def make(dev: ModuleType, *programs: str) -> None:
    """A virtual environment, as far as the script looks at one."""
    (dev.VENV / "bin").mkdir(parents=True)
    for program in programs:
        (dev.VENV / "bin" / program).touch()


def test_a_whole_environment_is_used(dev: ModuleType) -> None:
    make(dev, "python", "pip")
    dev.MAKER.write_text(dev.maker())
    assert dev.is_usable()


def test_an_environment_made_by_hand_is_used(dev: ModuleType) -> None:
    make(dev, "python", "pip")
    assert dev.is_usable()


def test_an_environment_cut_off_before_pip_is_made_again(dev: ModuleType) -> None:
    make(dev, "python")
    assert not dev.is_usable()


def test_a_copied_checkout_does_not_run_the_one_it_came_from(dev: ModuleType) -> None:
    make(dev, "python", "pip")
    dev.MAKER.write_text(dev.maker().replace(str(dev.VENV), "/elsewhere/.venv"))
    assert not dev.is_usable()


def test_another_python_makes_its_own_environment(dev: ModuleType) -> None:
    make(dev, "python", "pip")
    dev.MAKER.write_text(f"{dev.VENV}\n3.9.1\n")
    assert not dev.is_usable()


def test_a_moved_checkout_installs_again(dev: ModuleType) -> None:
    here = dev.wanted()
    vars(dev)["VENV"] = Path("/elsewhere/.venv")
    assert dev.wanted() != here


def test_pips_index_in_the_environment_reaches_uv(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    assert dev.pips_index("/bin/false") == {"UV_DEFAULT_INDEX": "https://packages.example/simple"}


def test_an_index_meant_for_uv_is_left_alone(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv.example/simple")
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    assert dev.pips_index("/bin/false") == {}


def test_the_networks_are_locked_for_any_machine_with_all_their_hashes(dev: ModuleType) -> None:
    line = dev.locked(dev.NETWORKS)
    entry = dev.LOCK.read_text().partition(f"\n{dev.NETWORKS}==")[2].partition("\n    # via")[0]
    assert re.findall(r"sha256:\w{64}", line) == re.findall(r"sha256:\w{64}", entry) != []
    assert line.startswith(f"{dev.NETWORKS}==")
    assert ";" not in line
    assert line.count("\n") == 1


def test_the_lock_names_no_registry_and_no_path(dev: ModuleType) -> None:
    told = [line for line in dev.LOCK.read_text().splitlines() if "://" in line or " /" in line]
    assert told == []
