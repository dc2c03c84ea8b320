"""Metrics: told as Prometheus reads them, checked against the table, and free where nobody looks."""

import socket

import httpx
import pytest
from prometheus_client import generate_latest

from infra import metrics
from infra.settings import Settings


@pytest.fixture(autouse=True)
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a process does."""
    monkeypatch.setattr(metrics, "_instruments", None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def told(registry: object) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()  # type: ignore[arg-type]  # as `start` gives it
    return [line for line in lines if not line.startswith("#")]


def test_counters_and_gauges_are_told_with_their_labels() -> None:
    registry = metrics.start()
    metrics.count("api_errors", code="rate_limited")
    metrics.count("api_errors", 2, code="rate_limited")
    metrics.show("sweep_open", [({"kind": "lot_due"}, 4), ({"kind": "row_without_workflow"}, 1)])
    metrics.show("unknown_open", [({}, 3)])
    assert 'holdfast_api_errors_total{code="rate_limited"} 3.0' in told(registry)
    assert 'holdfast_sweep_open{kind="lot_due"} 4.0' in told(registry)
    assert "holdfast_unknown_open 3.0" in told(registry)
    metrics.show("sweep_open", [({"kind": "lot_due"}, 0)])
    assert [line for line in told(registry) if "sweep_open" in line] == ['holdfast_sweep_open{kind="lot_due"} 0.0']


def test_a_histogram_has_the_buckets_of_the_table() -> None:
    registry = metrics.start()
    metrics.observe("eta_error_seconds", 3.0)
    buckets = [line for line in told(registry) if line.startswith("holdfast_eta_error_seconds_bucket")]
    assert [line.rpartition(" ")[2] for line in buckets] == ["0.0"] * 3 + ["1.0"] * 7
    assert "holdfast_eta_error_seconds_sum 3.0" in told(registry)


@pytest.mark.parametrize(
    ("name", "labels"), [("no_such", {}), ("api_errors", {}), ("credits_charged", {"x": "y"})]
)
def test_a_name_or_label_that_the_table_lacks_is_caught_where_nobody_looks_too(
    name: str, labels: dict[str, str]
) -> None:
    with pytest.raises(KeyError):
        metrics.count(name, 1, **labels)


def test_nothing_is_served_without_a_port() -> None:
    metrics.serve(Settings(), "api")
    assert not metrics.is_served()


def test_each_process_answers_on_its_own_port() -> None:
    port = free_port()
    metrics.serve(Settings(metrics_port=port - 1), "orchestrator")
    assert metrics.is_served()
    metrics.count("credits_charged", 5)
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    assert "holdfast_credits_charged_total 5.0" in answer.text


def test_a_taken_port_costs_the_figures_and_not_the_process() -> None:
    port = free_port()
    metrics.serve(Settings(metrics_port=port), "api")
    metrics.serve(Settings(metrics_port=port), "api")
