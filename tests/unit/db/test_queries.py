"""Queries as text: names, comments, what is refused."""

from pathlib import Path

import pytest

from infra.db import queries


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package for `.sql` files; its folder is `tmp_path`."""
    monkeypatch.setattr(queries, "files", lambda _: tmp_path)
    return "some.package"


def test_a_file_is_its_named_queries(package: str, tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(
        "-- Head.\n\n-- name: first\n-- What it is,\n-- in two lines.\nselect 1;\n\n-- name: second\nselect\n  2\n"
    )
    loaded = queries.load(package)
    assert [query.name for query in loaded] == ["first", "second"]
    assert loaded["first"].comment == "What it is, in two lines."
    assert loaded["first"].text.endswith("select 1")
    assert loaded["second"].comment == ""
    with pytest.raises(KeyError, match="third"):
        loaded["third"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-- name: a\nselect 1\n-- name: a\nselect 2\n", "named 'a'"),
        ("select 1\n-- name: a\nselect 2\n", "before the first name"),
    ],
)
def test_an_unclear_file_is_refused(package: str, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "queries.sql").write_text(text)
    with pytest.raises(ValueError, match=why):
        queries.load(package)
