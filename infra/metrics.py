"""Metrics: one table of all that there are, and the endpoint that Prometheus reads.

Counting costs nothing where no endpoint is set. Counters are of the process that counts; gauges are read from the
database by each orchestrator, so they are the platform's, and one of them is enough to look at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import structlog

from infra.settings import Settings

PREFIX = "holdfast_"
PORTS = ("api", "orchestrator", "media")
"""Which process listens at `metrics_port` plus its place here. Hosts of cards have no metrics of their own yet."""
log = structlog.get_logger(__name__)


class Sort(StrEnum):
    """What a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        sort: A counter only rises, and Prometheus adds `_total` to its name; a histogram has `_bucket`, `_sum` and
            `_count`.
        meaning: What is counted, as a sentence.
        process: Who has it.
        labels: Names of its labels.
        bounds: Of a histogram's buckets.
    """

    sort: Sort
    meaning: str
    process: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


METRICS: dict[str, Metric] = {
    "api_errors": Metric(
        Sort.COUNTER,
        "Answers that were no success, by their code: limits that were hit are `rate_limited`, `quota_exceeded`, "
        "`spending_limit_reached` and `insufficient_credits`.",
        "api",
        ("code",),
    ),
    "generations_closed": Metric(
        Sort.COUNTER,
        "Generations that ended, by how and by where their credits went: `settled` or `released`.",
        "orchestrator",
        ("status", "credit_status"),
    ),
    "credits_charged": Metric(Sort.COUNTER, "Credits settled by generations that ended.", "orchestrator"),
    "generations_delivered_late": Metric(
        Sort.COUNTER, "Results that were found after a release and delivered free of charge.", "orchestrator"
    ),
    "sweep_findings": Metric(
        Sort.COUNTER,
        "What sweeps found, by kind, and whether it was repaired at once.",
        "orchestrator",
        ("kind", "repaired"),
    ),
    "sweep_open": Metric(
        Sort.GAUGE, "What was found and is not mended, by kind; 0 is right.", "orchestrator", ("kind",)
    ),
    "sweep_age_seconds": Metric(
        Sort.GAUGE, "Seconds since a step of the sweep was last done.", "orchestrator", ("step",)
    ),
    "unknown_open": Metric(Sort.GAUGE, "Generations whose outcome isn't known.", "orchestrator"),
    "unknown_credits": Metric(Sort.GAUGE, "Credits that they hold.", "orchestrator"),
    "unknown_oldest_seconds": Metric(
        Sort.GAUGE, "Age of the oldest outcome that isn't known; 0 without any.", "orchestrator"
    ),
    "unknown_raised": Metric(Sort.GAUGE, "Those that an operator has to decide.", "orchestrator"),
    "generations_open": Metric(
        Sort.GAUGE, "Generations that hold credits, by credit status.", "orchestrator", ("credit_status",)
    ),
    "credits_held": Metric(Sort.GAUGE, "Credits that open generations hold.", "orchestrator"),
    "cards_in_trouble": Metric(
        Sort.GAUGE,
        "Cards that can't be believed, by kind: `claimed` by another host within the last minute, telling "
        "`nonsense`, or `quarantined`; 0 is right.",
        "orchestrator",
        ("kind",),
    ),
    "cards_warm": Metric(
        Sort.GAUGE,
        "Cards on which all that a model's first mode uses is loaded, by kind: `wanted` by its manifest and by "
        "what came in the last minutes, and `warm` now.",
        "orchestrator",
        ("model", "kind"),
    ),
    "eta_error_seconds": Metric(
        Sort.HISTOGRAM,
        "Seconds between the start that a waiting generation was told first and the real one, early or late.",
        "orchestrator",
        bounds=(0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
    ),
    "outbox_waiting": Metric(Sort.GAUGE, "Messages not delivered yet, by topic.", "orchestrator", ("topic",)),
}
"""By name, without the prefix."""

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Instruments:
    """What counts, once an endpoint is there."""

    counters: dict[str, Any] = field(default_factory=dict)
    gauges: dict[str, dict[Labels, float]] = field(default_factory=dict)
    histograms: dict[str, Any] = field(default_factory=dict)


_instruments: _Instruments | None = None


def count(name: str, amount: int = 1, **labels: str) -> None:
    """Add to a counter of the table.

    Raises:
        KeyError: There is no such metric, or it has other labels.
    """
    _check(name, labels)
    if _instruments is not None:
        _instruments.counters[name].add(amount, labels)


def show(name: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
    """Replace all values of a gauge of the table.

    Raises:
        KeyError: There is no such metric, or it has other labels.
    """
    found: dict[Labels, float] = {}
    for labels, value in values:
        _check(name, labels)
        found[tuple(sorted(labels.items()))] = value
    if _instruments is not None:
        _instruments.gauges[name] = found


def observe(name: str, value: float, **labels: str) -> None:
    """Add a value to a histogram of the table.

    Raises:
        KeyError: There is no such metric, or it has other labels.
    """
    _check(name, labels)
    if _instruments is not None:
        _instruments.histograms[name].record(value, labels)


def serve(settings: Settings, process: str) -> None:
    """Answer `/metrics` for this process, where settings give a port."""
    if not settings.metrics_port:
        return
    from prometheus_client import start_http_server  # noqa: PLC0415 - costs a third of a second, for whoever asks

    port = settings.metrics_port + PORTS.index(process)
    try:
        start_http_server(port, addr=settings.metrics_host, registry=start())
    except OSError as error:  # a second process of the same kind on this machine: it works on unobserved
        log.error("metrics_not_served", port=port, reason=str(error))  # noqa: TRY400 - the line says it all
        return
    log.info("metrics_served", address=f"http://{settings.metrics_host}:{port}/metrics")


def start() -> Any:
    """Begin to count; the Prometheus registry that tells the figures."""
    global _instruments  # noqa: PLW0603 - a process has one set of figures
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415 - as in `serve`
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - as above
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - as above

    registry = CollectorRegistry()
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    meter = MeterProvider(metric_readers=[reader], shutdown_on_exit=False).get_meter("holdfast")
    made = _Instruments()
    for name, metric in METRICS.items():
        if metric.sort is Sort.COUNTER:
            made.counters[name] = meter.create_counter(PREFIX + name, description=metric.meaning)
        elif metric.sort is Sort.HISTOGRAM:
            made.histograms[name] = meter.create_histogram(
                PREFIX + name, description=metric.meaning, explicit_bucket_boundaries_advisory=list(metric.bounds)
            )
        else:
            made.gauges[name] = {}
            meter.create_observable_gauge(
                PREFIX + name, callbacks=[_observed(made, name)], description=metric.meaning
            )
    _instruments = made
    return registry


def is_served() -> bool:
    """Whether anybody can look at figures here."""
    return _instruments is not None


def _observed(made: _Instruments, name: str) -> Any:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - as in `serve`

    def observe(_options: Any) -> list[Any]:
        return [Observation(value, dict(labels)) for labels, value in made.gauges[name].items()]

    return observe


def _check(name: str, labels: Mapping[str, str]) -> None:
    if set(labels) != set(METRICS[name].labels):
        raise KeyError(f"{name} has the labels {METRICS[name].labels}, not {tuple(labels)}")
