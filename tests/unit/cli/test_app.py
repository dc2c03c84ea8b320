"""The command line offers all commands, and a call pays for its own alone."""

import subprocess
import sys
from importlib import import_module

import pytest
from typer.main import get_command

from workers.cli.app import COMMANDS, GROUPS, application, whole

LOADED_BY_STATUS = """
import sys
sys.argv = ["holdfast", "status"]
from workers.cli.app import main
try:
    main()
except SystemExit:
    print(*{"PIL", "temporalio.client", "workers.cli.demo", "workers.bench"} & set(sys.modules))
"""


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_a_command_called_alone_is_the_one_of_the_whole(name: str) -> None:
    alone = get_command(application((name,)))
    assert list(getattr(alone, "commands", {})) == [name]
    assert name in getattr(get_command(whole()), "commands", {})


def test_a_command_is_a_function_of_its_name() -> None:
    assert all(callable(getattr(import_module(module), name)) for name, module in COMMANDS.items())


def test_asking_how_the_stack_is_loads_neither_pictures_nor_temporal(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    argv = [sys.executable, "-c", LOADED_BY_STATUS]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split() == []
