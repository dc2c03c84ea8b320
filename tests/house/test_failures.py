"""Every failure code has a verdict, and the verdicts are consistent.

Reason: a code without a row in the table would be answered with whatever the place that raised it thought
of. HTTP statuses and retry verdicts come from this one table.
"""

import re

from workflows.contracts.failures import VERDICTS, Code, Severity, Verdict

CLIENT_ERROR, SERVER_ERROR = 4, 5


def doubts(code: str, verdict: Verdict) -> list[str]:
    """What is inconsistent in one row."""
    found = []
    if verdict.http_status // 100 not in {CLIENT_ERROR, SERVER_ERROR}:
        found.append("isn't an error status")
    if verdict.http_status // 100 == SERVER_ERROR and verdict.severity is Severity.CALLER:
        found.append("blames the caller with a 5xx")
    if not verdict.meaning.endswith("."):
        found.append("has no sentence")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", code):
        found.append("isn't in lower case")
    return [f"{code} {doubt}" for doubt in found]


def test_every_code_has_a_verdict() -> None:
    assert set(VERDICTS) == set(Code)


def test_every_verdict_is_consistent() -> None:
    assert [doubt for code, verdict in VERDICTS.items() for doubt in doubts(code, verdict)] == []


def test_an_inconsistent_row_is_caught() -> None:
    row = Verdict(200, retryable=False, severity=Severity.CALLER, meaning="Good.")
    assert doubts("fine", row) == ["fine isn't an error status"]
    assert doubts("Fine", row._replace(http_status=500, meaning="x")) == [
        "Fine blames the caller with a 5xx",
        "Fine has no sentence",
        "Fine isn't in lower case",
    ]
