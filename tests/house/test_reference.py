"""The reference pages say what the code says, and the README's commands exist.

Reason: a reference that is written by hand is wrong from the first change that forgot it, and a README whose
command doesn't exist is the first thing that a newcomer meets.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from infra.settings import Settings
from tests.house.reference import PAGES, documented_settings
from tests.house.sources import ROOT
from workers.cli.app import app

_PAGES_WITH_COMMANDS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
_COMMAND = re.compile(r"(?:^|[`$ ])(?:\./dev|holdfast) ([a-z]+(?: [a-z]+)*)((?: --[a-z-]+)*)", re.MULTILINE)
_CODE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)


def commands_in(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Every command that stands in code, as its words and its options."""
    for block, inline in _CODE.findall(text):
        for words, options in _COMMAND.findall(block or inline):
            yield words.split(), options.split()


def unknown(root: TyperCommand | TyperGroup, words: list[str], options: list[str]) -> str | None:
    """Why a command can't be called so, or None. Words after the last command are its arguments."""
    command: Any = root
    for word in words:
        if not isinstance(command, TyperGroup):
            break
        inner = command.commands.get(word)
        if inner is None:
            return f"{command.name or 'holdfast'} has no {word}"
        command = inner
    known = {option for parameter in command.params for option in parameter.opts}
    return next((f"{command.name} takes no {option}" for option in options if option not in known), None)


def _root(app: typer.Typer) -> TyperCommand | TyperGroup:
    command = get_command(app)
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_is_as_the_code_makes_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run `python -m tests.house.refresh`"


def test_every_setting_has_its_sentence() -> None:
    assert set(documented_settings()) == set(Settings.model_fields)


def test_every_command_in_the_documentation_exists() -> None:
    root = _root(app)
    mistakes = [
        f"{path.relative_to(ROOT)}: {mistake}"
        for path in _PAGES_WITH_COMMANDS
        for words, options in commands_in(path.read_text(encoding="utf-8"))
        if (mistake := unknown(root, words, options))
    ]
    assert mistakes == []


def test_a_command_that_does_not_exist_is_caught() -> None:
    sample, ledger = typer.Typer(), typer.Typer()
    sample.add_typer(ledger, name="ledger")

    @sample.command()
    def up(*, detach: bool = False) -> None:
        """Start."""

    @ledger.command()
    def audit(*, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        """Look."""

    root = _root(sample)
    text = "```sh\n./dev up --detach\n```\nand `holdfast ledger audit --json`, not `holdfast ledger burn --all`."
    found = list(commands_in(text))
    assert found == [(["up"], ["--detach"]), (["ledger", "audit"], ["--json"]), (["ledger", "burn"], ["--all"])]
    assert [unknown(root, words, options) for words, options in found] == [None, None, "ledger has no burn"]
    assert unknown(root, ["up"], ["--now"]) == "up takes no --now"
