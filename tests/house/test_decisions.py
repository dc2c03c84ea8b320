"""Decision pages are numbered without gaps and have all their parts.

Reason: a page is cited by its number, from code too; a gap means that one was thrown away, and a decision
that no longer holds is superseded by a later page, not deleted. A decision without its alternatives can't
be weighed again by who comes later.
"""

import re

from tests.house.sources import ROOT

FOLDER = ROOT / "docs" / "decisions"
_NAME = re.compile(r"(\d{4})-[a-z0-9-]+\.md")
_HEADINGS = ("Context", "Decision", "Consequences", "Alternatives")
_STATUS = re.compile(r"^Status: (accepted|proposed|superseded by \d{4})$", re.MULTILINE)
_DATE = re.compile(r"^Date: \d{4}-\d{2}-\d{2}$", re.MULTILINE)


def misnumbered(names: list[str]) -> list[str]:
    """File names that don't continue the count from 0001."""
    found = []
    for number, name in enumerate(sorted(names), 1):
        match = _NAME.fullmatch(name)
        if not match or int(match[1]) != number:
            found.append(f"{name} should be number {number:04}")
    return found


def missing_parts(text: str) -> list[str]:
    """What a decision page lacks."""
    found = [heading for heading in _HEADINGS if f"\n## {heading}\n" not in text]
    found += [name for name, pattern in (("Status", _STATUS), ("Date", _DATE)) if not pattern.search(text)]
    return found if text.startswith("# ") else ["title", *found]


def test_pages_are_numbered_without_gaps() -> None:
    names = [path.name for path in FOLDER.glob("*.md") if path.name != "README.md"]
    assert names
    assert misnumbered(names) == []


def test_every_page_has_all_its_parts() -> None:
    pages = {path.name: missing_parts(path.read_text()) for path in FOLDER.glob("[0-9]*.md")}
    assert {name: missing for name, missing in pages.items() if missing} == {}


def test_every_decision_that_is_cited_exists() -> None:
    texts = [
        path
        for room in ("workflows", "activities", "api", "infra", "workers", "docs")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".md", ".sql", ".yaml"}
    ]
    cited = {
        match
        for path in (*texts, ROOT / "temporal.yaml", ROOT / "README.md")
        for match in re.findall(r"docs/decisions/(\d{4})", path.read_text())
    }
    there = {path.name[:4] for path in FOLDER.glob("[0-9]*.md")}
    assert sorted(cited - there) == []


def test_gaps_and_missing_parts_are_caught() -> None:
    assert misnumbered(["0001-a.md", "0003-b.md"]) == ["0003-b.md should be number 0002"]
    assert misnumbered(["1-a.md"])
    good = "# T\n\nStatus: accepted\nDate: 2030-01-02\n" + "".join(f"\n## {heading}\n" for heading in _HEADINGS)
    assert missing_parts(good) == []
    assert missing_parts(good.replace("## Alternatives\n", "")) == ["Alternatives"]
    assert missing_parts(good.replace("accepted", "perhaps")) == ["Status"]
