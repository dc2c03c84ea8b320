"""Only `infra/settings.py` reads the environment.

Reason: a setting read at the place of use has no type, no bound, no line in the reference and no test;
systems of this kind grew ninety such reads, flags compared to `"1"` included. The bootstrap script `dev`
runs before anything is installed and is the one exception.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import Breach, Module, imported_names, listed, product, resolved, sample

OWNER = "infra/settings.py"
PASSES_ON = frozenset(("workers/supervisor/plan.py", "workers/cli/develop.py", "workers/supervisor/control.py"))
"""These hand the whole environment to a child process, and look for nothing in it but its PATH."""
_READERS = ("os.environ", "os.environb", "os.getenv", "os.getenvb", "dotenv")


def environment_reads(module: Module) -> Iterator[Breach]:
    """Every use of the process's environment in a module that doesn't own it."""
    if module.where == OWNER or module.where in PASSES_ON:
        return
    for statement, origin, _ in imported_names(module.tree):
        if origin in _READERS or origin.startswith("dotenv."):
            yield module.breach(statement, f"imports {origin}; add a field to {OWNER} instead")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and resolved(module, node) in _READERS:
            yield module.breach(node, f"reads the environment; add a field to {OWNER} instead")


def test_only_settings_read_the_environment() -> None:
    assert listed(breach for module in product() for breach in environment_reads(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nhome = os.environ['HOME']\n",
        "import os as system\nhome = system.getenv('HOME')\n",
        "from os import environ\n",
        "from os import getenv as read\n",
        "import dotenv\n",
    ],
)
def test_each_way_to_read_it_is_caught(text: str) -> None:
    assert list(environment_reads(sample(text)))


def test_its_owner_and_other_uses_of_os_are_left_alone() -> None:
    assert not list(environment_reads(sample("import os\nhome = os.environ\n", OWNER)))
    assert not list(environment_reads(sample("import os\nos.kill(os.getpid(), 9)\n")))
