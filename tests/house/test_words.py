"""Words that are not to be found: rooms without a noun, one machine's paths, registries' hosts.

Reason: a module named for no noun of the field becomes the place where everything goes that nobody placed.
A path of one machine, or the address of the registry that one machine used, makes the checkout work there
and nowhere else; the lock is to be installable from any mirror.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.house.sources import ROOMS, ROOT, Breach, listed

NOUNLESS = frozenset(
    ("util", "utils", "helper", "helpers", "manager", "managers", "misc", "common", "shared", "stuff")
)
# Built from pieces, so that this file doesn't hold what it forbids.
_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("golang", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
]
_PATHS = ["/" + "work/", "/" + "root/", "/" + "tmp/plan", "/" + "home/", "/" + "Users/"]
_OPTIONS = ["--" + "index-url https:", "--" + "extra-index-url=http:", "--" + "find-links /srv"]
_FORBIDDEN = re.compile(
    "|".join(
        [
            *(r"(?<![\w-])(?:[\w-]+\.)*" + re.escape(host) + r"(?![\w-])" for host in _HOSTS),
            *(r"(?<![\w./}$~-])" + re.escape(path) for path in _PATHS),
            r"--(?:extra-)?" + r"index-url[= ]https?:",
            r"--" + r"find-links[= ]\S",
        ]
    )
)
_TEXT = frozenset((".py", ".md", ".toml", ".yaml", ".yml", ".sql", ".txt", ".json", ".cfg", ".sh", ".lock", ""))
_TOP = (*ROOMS, "tests", "docs", ".ci")
TEXT_BYTES_MAX = 2_000_000
"""Recorded histories are below this; anything larger isn't text."""


def forbidden_words(where: str, text: str) -> Iterator[Breach]:
    """Every machine path, registry host and index option in a text."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _FORBIDDEN.finditer(line):
            yield Breach(where, number, f"holds {match[0]!r}")


def nounless(where: str) -> bool:
    """True when a part of the path names no noun of the field."""
    return any(part.split(".")[0] in NOUNLESS for part in PurePosixPath(where).parts)


def _texts() -> Iterator[Path]:
    tops = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".git")]
    for folder in _TOP:
        tops += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(tops):
        if path.suffix in _TEXT and path.stat().st_size < TEXT_BYTES_MAX:
            yield path


def test_no_text_holds_a_machines_path_or_a_registrys_host() -> None:
    breaches = (
        breach
        for path in _texts()
        for breach in forbidden_words(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    )
    assert listed(breaches) == []


def test_every_module_is_named_by_a_noun_of_the_field() -> None:
    modules = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert modules
    assert [where for where in modules if nounless(where)] == []


@pytest.mark.parametrize("text", [*_HOSTS, *_OPTIONS, *(f"see {path}x" for path in _PATHS), "files." + _HOSTS[1]])
def test_each_word_is_caught(text: str) -> None:
    assert list(forbidden_words("x.md", text))


@pytest.mark.parametrize("text", ["api/workers/work.py", "network/", "$HOME/.cache", "root/leaf", "framework/x"])
def test_words_that_only_look_alike_are_right(text: str) -> None:
    assert not list(forbidden_words("x.md", text))


def test_a_nounless_module_is_caught() -> None:
    assert nounless("infra/utils.py")
    assert nounless("api/common/paths.py")
    assert not nounless("infra/ledger/balance.py")
