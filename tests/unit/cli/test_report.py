"""What `--json` prints, and when a command succeeds."""

import json

import pytest
import typer

from workers.cli.report import Figure, Report, at_least, at_most, conclude


def test_goals_are_judged_at_their_bounds() -> None:
    assert at_most("ratio", 1.5, 1.5, "1").ok
    assert not at_most("ratio", 1.51, 1.5, "1").ok
    assert at_least("ratio", 0.93, 0.93, "1").ok
    assert not at_least("ratio", 0.92, 0.93, "1").ok


def test_a_report_without_figures_proves_nothing() -> None:
    assert not Report([]).ok


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_json_is_one_object_and_the_status_says_whether_all_goals_hold(
    capsys: pytest.CaptureFixture[str], *, ok: bool, code: int
) -> None:
    report = Report([Figure("told", 3, "count", "", ok=True), Figure("held", 1, "count", "= 1", ok=ok)])
    with pytest.raises(typer.Exit) as ended:
        conclude(report, as_json=True)
    assert ended.value.exit_code == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is ok
    assert [set(figure) for figure in printed["figures"]] == [{"name", "value", "unit", "goal", "ok", "raw"}] * 2
    assert printed["commit"] == report.commit
    assert printed["environment"]["cores"]
