"""The shipped traces meet their goals, and what can't be read is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from workers.simulate.figures import Simulated, fairness, figures, least_makespan, summary
from workers.simulate.replay import PolicyName, Replay
from workers.simulate.scenario import ScenarioUnreadableError, load, read_trace, shipped

QUICK = ("hair", "day", "rush", "avatars")


def simulated(name: str) -> Simulated:
    spec = read_trace(name)
    variants = list(spec.variants) or [""]
    placed = {variant: Replay(load(name, None, variant), PolicyName.HOLDFAST).run() for variant in variants}
    before = Replay(load(name, spec.baseline_fleet, variants[0]), PolicyName.FIFO).run()
    return Simulated(name, load(name, None, variants[0]), before, placed)


@pytest.mark.parametrize("name", QUICK)
def test_a_shipped_trace_meets_its_goals(name: str) -> None:
    missed = [figure for figure in figures(simulated(name)) if not figure.ok]
    assert not missed


def test_all_shipped_traces_can_be_read() -> None:
    assert set(shipped()) == {*QUICK, "fleet10000"}
    assert len(load("fleet10000").cards) == 10_000


def test_every_request_ends_once_and_no_card_runs_two_at_once() -> None:
    for policy in PolicyName:
        scenario = load("day")
        told = Replay(scenario, policy).run()
        assert len(told.runs) + told.repeated + told.unplaced == len(scenario.arrivals)
        assert len({run.arrival.operation for run in told.runs}) == len(told.runs)
        last: dict[str, float] = {}
        for run in sorted(told.runs, key=lambda each: each.started_at):
            for card in run.cards:
                assert run.started_at >= last.get(card, 0.0)
                last[card] = run.ended_at


def test_what_is_told_is_the_same_each_time() -> None:
    first, second = (Replay(load("avatars"), PolicyName.HOLDFAST).run() for _ in range(2))
    assert first.runs == second.runs


def test_a_work_that_no_card_can_take_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    trace = write(
        tmp_path,
        fleet={"works": {"big": work(budget_mib=9000)}},
        arrivals=[{"kind": "burst", "at_s": 0, "count": 3, "work": "big", "account": "a"}],
    )
    told = Replay(load(str(trace)), PolicyName.HOLDFAST).run()
    assert (told.unplaced, told.runs) == (3, [])
    assert summary(load(str(trace)), told)["refused"] == 3


def test_a_gang_takes_both_cards_of_a_host(tmp_path: Path) -> None:
    trace = write(
        tmp_path,
        fleet={"works": {"pair": work(cards=2)}},
        arrivals=[{"kind": "burst", "at_s": 0, "count": 2, "work": "pair", "account": "a"}],
    )
    for policy in PolicyName:
        runs = Replay(load(str(trace)), policy).run().runs
        assert [len(run.cards) for run in runs] == [2, 2]
        assert runs[1].started_at >= runs[0].ended_at


def test_a_recorded_trace_runs_as_it_was_seen(tmp_path: Path) -> None:
    trace = write(
        tmp_path,
        fleet={"works": {"short": work()}},
        arrivals=[{"kind": "recorded", "arrivals": [[0.0, "a", "short", 3.0], [1.0, "b", "short", 4.0]]}],
    )
    scenario = load(str(trace))
    told = Replay(scenario, PolicyName.HOLDFAST).run()
    assert sorted(run.ended_at for run in told.runs) == [3.0, 5.0]
    assert least_makespan(scenario) == 5.0
    assert fairness(told.runs) == 1.0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fleet": {"cards": []}}, "cards"),
        ({"fleet": {"works": {"short": {"capability": "x", "engine": "y", "run_s": [-1]}}}}, "run_s"),
        ({"fleet": {"surprise": 1}}, "surprise"),
        (
            {"fleet": {"works": {"short": {"capability": "x", "engine": "y", "run_s": [1], "residents": ["z"]}}}},
            "no resident z",
        ),
        ({"arrivals": [{"kind": "burst", "at_s": 0, "count": 0, "work": "short", "account": "a"}]}, "count"),
        ({"arrivals": [{"kind": "burst", "at_s": 0, "count": 1, "work": "nothing", "account": "a"}]}, "nothing"),
        ({"arrivals": [{"kind": "storm"}]}, "kind"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    trace = write(tmp_path, **change)
    with pytest.raises(ScenarioUnreadableError, match=named):
        load(str(trace))


def test_a_name_that_is_neither_shipped_nor_a_file_is_refused() -> None:
    with pytest.raises(ScenarioUnreadableError, match="no trace `nowhere`"):
        load("nowhere")


def work(**more: object) -> dict[str, Any]:
    return {"capability": "x", "engine": "y", "run_s": [2.0, 4.0], **more}


def write(
    folder: Path, *, fleet: dict[str, Any] | None = None, arrivals: list[dict[str, Any]] | None = None
) -> Path:
    """A small fleet of two cards and a trace, with changes."""
    whole: dict[str, Any] = {
        "cards": [{"count": 2, "label": "gpu", "total_mib": 1000, "engines": ["y"], "capabilities": ["x"]}],
        "works": {"short": work()},
    }
    one = [{"kind": "burst", "at_s": 0, "count": 1, "work": "short", "account": "a"}]
    (folder / "small.fleet.yaml").write_text(json.dumps(whole | (fleet or {})))
    path = folder / "small.trace.yaml"
    path.write_text(json.dumps({"says": "a test", "fleet": "small", "arrivals": arrivals or one}))
    return path
