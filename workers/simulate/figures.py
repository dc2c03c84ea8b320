"""What a replay tells: a summary of each policy, and the figures that each shipped trace is for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workers.bench.statistics import percentile
from workers.cli.report import Figure, at_least, at_most
from workers.simulate.replay import PolicyName, Replayed, Run
from workers.simulate.scenario import Scenario
from workflows.contracts import timeouts


@dataclass(frozen=True, slots=True)
class Simulated:
    """A trace, replayed: under the baseline, and under placement in each of its variants.

    Attributes:
        name: The trace.
        scenario: As placement saw it, in the first variant.
        baseline: FIFO.
        variants: Placement, by variant; one, without a name, where the trace declares none.
    """

    name: str
    scenario: Scenario
    baseline: Replayed
    variants: dict[str, Replayed]

    @property
    def placed(self) -> Replayed:
        """Placement, in the first variant."""
        return next(iter(self.variants.values()))


def figures(told: Simulated) -> list[Figure]:
    """The figures of a shipped trace, with the summaries behind them; for another trace the summaries alone."""
    shown = {policy.value: summary(told.scenario, one) for policy, one in _policies(told)}
    match told.name:
        case "hair":
            found = _hair(told)
        case "day":
            found = _day(told)
        case "rush":
            found = _rush(told)
        case "avatars":
            found = _avatars(told)
        case "fleet10000":
            found = _fleet(told)
        case _:
            found = []
    return [*found, Figure("requests", len(told.scenario.arrivals), "count", "", ok=True, raw=shown)]


def summary(scenario: Scenario, told: Replayed) -> dict[str, Any]:
    """Throughput, utilisation, waiting, reloads, starvation and fairness of one replay."""
    runs = told.runs
    ended = max((run.ended_at for run in runs), default=0.0)
    worked = sum((run.ended_at - run.started_at - run.load_s) * len(run.cards) for run in runs)
    loaded = sum(run.load_s * len(run.cards) for run in runs)
    return {
        "ended": len(runs),
        "repeated": told.repeated,
        "refused": told.unplaced,
        "makespan_s": round(ended, 1),
        "per_hour": round(len(runs) / ended * 3600, 1) if ended else 0.0,
        "utilisation": round(worked / (ended * len(scenario.cards)), 4) if ended else 0.0,
        "loading": round(loaded / (ended * len(scenario.cards)), 4) if ended else 0.0,
        "reloads": reloads(told),
        "starved": sum(run.wait_s > timeouts.WAIT_DEFAULT.total_seconds() for run in runs),
        "fairness": round(fairness(runs), 4),
        "wait_s": _spread([run.wait_s for run in runs]),
        "wait_s_by_work": _by((run.arrival.work.key, run.wait_s) for run in runs),
        "wait_s_by_account": _by((run.arrival.account_id, run.wait_s) for run in runs),
        "decide_ms": {
            "p50": round(percentile(told.decide_s, 0.5) * 1000, 3),
            "p99": round(percentile(told.decide_s, 0.99) * 1000, 3),
        },
    }


def reloads(told: Replayed) -> int:
    """How often something was brought into a card's memory."""
    return sum(len(run.loaded) for run in told.runs)


def fairness(runs: Sequence[Run]) -> float:
    """Jain's index over accounts, of how much of its time each account's work was run and not waited for.

    1 when all accounts are slowed down alike; 1/n when one of n has all.
    """
    worked: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for run in runs:
        worked[run.arrival.account_id] += run.arrival.run_s  # type: ignore[assignment]  # seconds, not counts
        passed[run.arrival.account_id] += run.total_s  # type: ignore[assignment]  # as above
    speeds = [worked[account] / passed[account] for account in worked]
    squares = sum(speed * speed for speed in speeds)
    return sum(speeds) ** 2 / (len(speeds) * squares) if squares else 1.0


def least_makespan(scenario: Scenario) -> float:
    """No schedule ends sooner: from each arrival on, all cards have to run what is still to come."""
    cards = len(scenario.cards)
    left = 0.0
    bound = 0.0
    for arrival in sorted(scenario.arrivals, key=lambda each: each.at, reverse=True):
        left += arrival.run_s * arrival.work.cards
        bound = max(bound, arrival.at + left / cards, arrival.at + arrival.run_s)
    return bound


HAIR_S_MAX = 10.0
"""Every interface under this, spec of the hair pipelines."""


def _hair(told: Simulated) -> list[Figure]:
    before = {name: _totals(told.baseline, name) for name in ("hair-measure", "hair-style-male", "hair-growth")}
    before["hair-style-female"] = _totals(told.baseline, "hair-style-female")
    by_variant = {name: percentile(_totals(one, "hair-style-female"), 0.95) for name, one in told.variants.items()}
    best = min(by_variant, key=lambda name: by_variant[name])
    now = told.variants[best]
    found = [
        at_most(_figure(name), percentile(_totals(now, name), 0.95), HAIR_S_MAX, "s", {"variant": best})
        for name in ("hair-measure", "hair-style-male", "hair-growth")
    ]
    found.append(
        at_most("hair_style_female_p95_s", by_variant[best], HAIR_S_MAX, "s", {"variant": best, "all": by_variant})
    )
    kept = by_variant[next(iter(by_variant))]
    found.append(Figure("hair_style_female_kept_p95_s", round(kept, 4), "s", "", ok=True, raw=by_variant))
    found += [
        Figure(f"fifo_{_figure(name)}", round(percentile(totals, 0.95), 4), "s", "", ok=True)
        for name, totals in before.items()
    ]
    return [*found, *_log_of_today(told.baseline)]


def _log_of_today(baseline: Replayed) -> list[Figure]:
    """Whether FIFO on today's fleet does as the log: one part in for a part of the other, and back."""
    growths = [run for run in baseline.runs if run.arrival.work.key == "hair-growth"][1:]
    as_logged = [
        run
        for run in growths
        if run.evicted == ("flux2-model-freed", "flux2-text") and run.loaded == ("flux2-text", "flux2-model-freed")
    ]
    ratio = len(as_logged) / len(growths) if growths else 0.0
    seconds = percentile([run.load_s for run in growths], 0.5) if growths else 0.0
    return [at_least("fifo_reloads_as_logged", ratio, 1.0, "1", {"growths": len(growths), "reload_s": seconds})]


def _figure(name: str) -> str:
    return f"{name.replace('-', '_')}_p95_s"


def _totals(told: Replayed, name: str) -> list[float]:
    return [run.total_s for run in told.runs if run.arrival.work.key.startswith(name)]


RELOADS_MAX = 0.7
"""At least 30 % fewer reloads than FIFO."""
MAKESPAN_MAX = 1.1
FAIRNESS_MIN = 0.99
"""Of FIFO's index: equal, but for the rounding of one day's chance."""


def _day(told: Simulated) -> list[Figure]:
    placed, baseline = told.placed, told.baseline
    waits, waits_before = _waits(placed.runs), _waits(baseline.runs)
    ended = max(run.ended_at for run in placed.runs)
    bound = least_makespan(told.scenario)
    return [
        at_most("day_reload_ratio", reloads(placed) / reloads(baseline), RELOADS_MAX, "1"),
        at_most("day_p95_wait_ratio", percentile(waits, 0.95) / percentile(waits_before, 0.95), 1.0, "1"),
        at_most("day_makespan_ratio", ended / bound, MAKESPAN_MAX, "1", {"least_s": bound, "ended_s": ended}),
        at_least("day_fairness_ratio", fairness(placed.runs) / fairness(baseline.runs), FAIRNESS_MIN, "1"),
        at_most("day_starved", summary(told.scenario, placed)["starved"], 0, "count"),
    ]


OTHERS_WAIT_S_MAX = 30.0
"""Bound of other accounts' wait while one floods: about twice the flood's own runs of 14 s, one on each card."""


def _rush(told: Simulated) -> list[Figure]:
    placed = told.placed

    def others(one: Replayed) -> list[float]:
        return [run.wait_s for run in one.runs if run.arrival.account_id.startswith("other")]

    def tasks(account: str) -> int:
        return sum(run.arrival.account_id == account for run in placed.runs)

    during = [run for run in placed.runs if run.arrival.account_id == "distinct"]
    first, last = min(run.arrival.at for run in during), max(run.ended_at for run in during)
    beside = [
        run.wait_s
        for run in placed.runs
        if run.arrival.account_id.startswith("other") and first <= run.arrival.at <= last
    ]
    return [
        at_most("rush_tasks_same_operation", tasks("same-operation"), 1, "count"),
        at_most("rush_tasks_same_body", tasks("same-body"), 1, "count"),
        at_least("rush_tasks_distinct", tasks("distinct"), 65, "count"),
        at_most("rush_others_p95_wait_s", percentile(others(placed), 0.95), OTHERS_WAIT_S_MAX, "s"),
        at_most("rush_others_beside_max_wait_s", max(beside, default=0.0), OTHERS_WAIT_S_MAX, "s", beside),
        Figure("fifo_rush_others_max_wait_s", round(max(others(told.baseline)), 4), "s", "", ok=True),
    ]


AVATAR_WAIT_S_MAX = 83.0
"""What eight at once waited at most on the system that this replaces, with a queue that wasn't overfull."""


def _avatars(told: Simulated) -> list[Figure]:
    def waits(one: Replayed) -> list[float]:
        return [run.wait_s for run in one.runs if run.arrival.account_id == "avatars"]

    return [
        at_most("avatars_p95_wait_s", percentile(waits(told.placed), 0.95), AVATAR_WAIT_S_MAX, "s"),
        Figure("fifo_avatars_p95_wait_s", round(percentile(waits(told.baseline), 0.95), 4), "s", "", ok=True),
        at_most("avatars_others_starved", summary(told.scenario, told.placed)["starved"], 0, "count"),
    ]


DECIDE_MS_MAX = 100.0


def _fleet(told: Simulated) -> list[Figure]:
    placed = told.placed
    decided = percentile(placed.decide_s, 0.99) * 1000
    waits, waits_before = _waits(placed.runs), _waits(told.baseline.runs)
    return [
        at_most("fleet10000_decide_ms_p99", decided, DECIDE_MS_MAX, "ms"),
        at_most("fleet10000_reload_ratio", reloads(placed) / reloads(told.baseline), RELOADS_MAX, "1"),
        at_most("fleet10000_p95_wait_s", percentile(waits, 0.95), max(percentile(waits_before, 0.95), 1.0), "s"),
    ]


def _waits(runs: Iterable[Run]) -> list[float]:
    return [run.wait_s for run in runs]


def _policies(told: Simulated) -> list[tuple[PolicyName, Replayed]]:
    return [(PolicyName.FIFO, told.baseline), (PolicyName.HOLDFAST, told.placed)]


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {
        "p50": round(percentile(values, 0.5), 2),
        "p95": round(percentile(values, 0.95), 2),
        "max": round(max(values), 2),
    }


ACCOUNTS_SHOWN = 50


def _by(pairs: Iterable[tuple[str, float]]) -> dict[str, dict[str, float]]:
    grouped: dict[str, list[float]] = defaultdict(list)
    for name, value in pairs:
        grouped[name].append(value)
    most = sorted(grouped, key=lambda name: -len(grouped[name]))[:ACCOUNTS_SHOWN]
    return {name: {"count": len(grouped[name])} | _spread(grouped[name]) for name in sorted(most)}
