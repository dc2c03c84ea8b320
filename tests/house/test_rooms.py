"""The rooms' imports hold, as `[tool.importlinter]` in pyproject.toml states them.

Reason: each room is named by what it may do. A workflow that imports an adapter, or an adapter that imports
the API, works on the day it is written and can't be taken apart later.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT


def _lint(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as main; main()"
    )
    arguments = [sys.executable, "-c", program, "--config", str(config), "--no-cache"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_follow_the_rooms() -> None:
    result = _lint(ROOT / "pyproject.toml", ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("text", "code"), [("import api\n", 1), ("", 0)])
def test_an_import_against_the_direction_is_caught(tmp_path: Path, text: str, code: int) -> None:
    for room, body in (("workflows", text), ("api", "")):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(body)
    config = tmp_path / "rooms.toml"
    config.write_text(
        '[tool.importlinter]\nroot_packages = ["workflows", "api"]\n\n[[tool.importlinter.contracts]]\n'
        'name = "direction"\ntype = "layers"\nlayers = ["api", "workflows"]\n'
    )
    assert _lint(config, tmp_path).returncode == code
