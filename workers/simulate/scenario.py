"""A fleet and a trace as people write them, and as the simulator takes them."""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workflows.domain.placement.fleet import Card, Policy, Priority, Resident, Share, Work

SCENARIOS = resources.files("workers.simulate") / "scenarios"
DAILY_SWING = 0.75
"""Part of the average by which a day's arrivals rise and fall."""
DAILY_PEAK_H = 14
T = TypeVar("T", bound=BaseModel)
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class ScenarioUnreadableError(Exception):
    """A fleet or trace that can't be used; the message names the field and why."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Cards(_Part):
    """Cards that are alike; every `per_host` of them share a host. `resident` is loaded from the start."""

    count: Count
    label: str
    total_mib: Annotated[int, Field(ge=0)]
    foreign_mib: Annotated[int, Field(ge=0)] = 0
    per_host: Count = 8
    engines: tuple[str, ...]
    capabilities: tuple[str, ...]
    resident: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()


class ResidentSpec(_Part):
    """What stays in memory."""

    mib: Annotated[int, Field(ge=0)]
    load_s: Annotated[float, Field(ge=0)]
    stop_s: Annotated[float, Field(ge=0)] = 0.0
    working_mib: Annotated[int, Field(ge=0)] = 0


class WorkSpec(_Part):
    """A model and mode. `run_s` are seconds seen on a warm card; each run draws one between the extremes."""

    capability: str
    engine: str
    run_s: Annotated[tuple[Positive, ...], Field(min_length=1)]
    budget_mib: Annotated[int, Field(ge=0)] = 0
    reserve_mib: Annotated[int, Field(ge=0)] = 0
    residents: tuple[str, ...] = ()
    cards: Count = 1
    priority: Priority = Priority.INTERACTIVE


class ShareSpec(_Part):
    """An account's share."""

    weight: Positive = 1.0
    in_flight_max: Count | None = None


class FleetSpec(_Part):
    """The fleet: cards, what runs on them, and who may have how much."""

    cards: Annotated[tuple[Cards, ...], Field(min_length=1)]
    residents: dict[str, ResidentSpec] = {}
    works: Annotated[dict[str, WorkSpec], Field(min_length=1)]
    shares: dict[str, ShareSpec] = {}
    warm_min: dict[str, Annotated[int, Field(ge=0)]] = {}
    duplicate_window_s: Annotated[float, Field(ge=0)] = 10.0
    """An account's same request within this is answered with the first."""


class Poisson(_Part):
    """Arrivals at random: `per_hour` on average; work and account drawn by weight."""

    kind: Literal["poisson"]
    per_hour: Positive
    from_s: Annotated[float, Field(ge=0)] = 0.0
    to_s: Positive
    work: Annotated[dict[str, Positive], Field(min_length=1)]
    accounts: Count = 1
    account_prefix: str = "acc"
    skew: Annotated[float, Field(ge=0)] = 1.0
    """Account n asks in proportion to 1 / n^skew."""
    daily: bool = False
    """Busy by day and quiet by night: between 0.25 and 1.75 of the average, highest at 14 h."""


class Burst(_Part):
    """`count` of one work at once, from one account; `distinct` says whether they are different requests."""

    kind: Literal["burst"]
    at_s: Annotated[float, Field(ge=0)]
    count: Count
    work: str
    account: str
    each_s: Annotated[float, Field(ge=0)] = 0.0
    distinct: bool = True
    one_operation: bool = False


class Recorded(_Part):
    """Arrivals that were seen: [seconds, account, work, seconds it ran]."""

    kind: Literal["recorded"]
    arrivals: tuple[tuple[float, str, str, Positive], ...]


class TraceSpec(_Part):
    """Who asks for what, when."""

    says: str
    fleet: str
    baseline_fleet: str | None = None
    """The fleet as it is without us, where that is another: the baseline runs on it."""
    variants: dict[str, dict[str, str]] = {}
    """Declared variants of the product: which work stands for which in each. The first is the one as asked."""
    seed: int = 1
    arrivals: Annotated[
        tuple[Annotated[Poisson | Burst | Recorded, Field(discriminator="kind")], ...], Field(min_length=1)
    ]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request.

    Attributes:
        at: Seconds from the trace's beginning.
        account_id: Whose.
        work: What it needs.
        run_s: Seconds that it will really run on a warm card; placement doesn't know this.
        operation: Its operation id.
        fingerprint: Of its body.
    """

    at: float
    account_id: str
    work: Work
    run_s: float
    operation: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a simulation needs."""

    name: str
    cards: tuple[Card, ...]
    policy: Policy
    arrivals: tuple[Arrival, ...]
    duplicate_window_s: float


def shipped() -> list[str]:
    """Names of the traces that come with the product."""
    names = (entry.name for entry in SCENARIOS.iterdir())
    return sorted(name.removesuffix(".trace.yaml") for name in names if name.endswith(".trace.yaml"))


def read_trace(trace: str) -> TraceSpec:
    """A trace, by a shipped name or from a file.

    Raises:
        ScenarioUnreadableError: with the field and the reason.
    """
    return _read(trace, "trace", TraceSpec)


def load(trace: str, fleet: str | None = None, variant: str | None = None) -> Scenario:
    """Read a trace and its fleet, each a shipped name or a file.

    Args:
        trace: Who asks for what, when.
        fleet: Another fleet than the trace names.
        variant: One of the trace's variants.

    Raises:
        ScenarioUnreadableError: with the field and the reason.
    """
    spec = read_trace(trace)
    fleet_spec = _read(fleet or spec.fleet, "fleet", FleetSpec, beside=Path(trace))
    works = _works(fleet_spec)
    stands_for = spec.variants.get(variant or "", {})
    chance = random.Random(spec.seed)  # noqa: S311 - a simulation is to be repeatable
    arrivals: list[Arrival] = []
    for number, source in enumerate(spec.arrivals):
        for index, one in enumerate(_arrivals(source, _Works(works, fleet_spec, stands_for, chance))):
            arrivals.append(_named(one, f"{number}-{index}"))
    arrivals.sort(key=lambda each: (each.at, each.operation))
    shares = {name: Share(share.weight, share.in_flight_max) for name, share in fleet_spec.shares.items()}
    return Scenario(
        name=Path(trace).name.removesuffix(".trace.yaml"),
        cards=tuple(_cards(fleet_spec)),
        policy=Policy(shares=shares, warm_min=fleet_spec.warm_min, fresh_s=math.inf),
        arrivals=tuple(arrivals),
        duplicate_window_s=fleet_spec.duplicate_window_s,
    )


def _read(name: str, kind: str, shape: type[T], *, beside: Path | None = None) -> T:
    candidates = [Path(name)] + ([beside.parent / f"{name}.{kind}.yaml"] if beside is not None else [])
    found = next((path for path in candidates if path.is_file()), None)
    entry = found or SCENARIOS / f"{name}.{kind}.yaml"
    if not entry.is_file():
        raise ScenarioUnreadableError(f"no {kind} `{name}`: neither a file nor one of {', '.join(shipped())}")
    try:
        return shape.model_validate(yaml.safe_load(entry.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        raise ScenarioUnreadableError(f"{kind} `{name}`: {error}") from error


def _works(fleet: FleetSpec) -> dict[str, Work]:
    works = {}
    for name, spec in fleet.works.items():
        unknown = [part for part in spec.residents if part not in fleet.residents]
        if unknown:
            raise ScenarioUnreadableError(f"works.{name}.residents: no resident {unknown[0]}")
        works[name] = Work(
            key=name,
            capability=spec.capability,
            engine=spec.engine,
            budget_mib=spec.budget_mib,
            run_s=sum(spec.run_s) / len(spec.run_s),
            reserve_mib=spec.reserve_mib,
            residents=tuple(_resident(fleet, part) for part in spec.residents),
            cards=spec.cards,
            priority=spec.priority,
        )
    return works


def _resident(fleet: FleetSpec, name: str) -> Resident:
    if name not in fleet.residents:
        raise ScenarioUnreadableError(f"cards.resident: no resident {name}")
    spec = fleet.residents[name]
    return Resident(name, spec.mib, spec.load_s, spec.stop_s, spec.working_mib)


def _cards(fleet: FleetSpec) -> Iterator[Card]:
    number = 0
    for spec in fleet.cards:
        for index in range(spec.count):
            yield Card(
                uuid=f"card-{number:05d}",
                label=f"{spec.label}-{index}",
                host=f"{spec.label}-host-{index // spec.per_host}",
                engines=frozenset(spec.engines),
                capabilities=frozenset(spec.capabilities),
                total_mib=spec.total_mib,
                reported_at=0.0,
                foreign_mib=spec.foreign_mib,
                residents=tuple(_resident(fleet, name) for name in spec.resident),
                pinned=frozenset(spec.pinned),
            )
            number += 1


class _Works:
    """The fleet's works with one variant's substitutions, and the chance that draws their run times."""

    def __init__(
        self, works: dict[str, Work], fleet: FleetSpec, stands_for: dict[str, str], chance: random.Random
    ) -> None:
        self._works = works
        self._fleet = fleet
        self._stands_for = stands_for
        self.chance = chance

    def draw(self, name: str, run_s: float | None = None) -> tuple[Work, float]:
        """The work of that name and how long it will run. One draw each, so that variants share all others."""
        drawn = self.chance.random()
        chosen = self._stands_for.get(name, name)
        if chosen not in self._works:
            raise ScenarioUnreadableError(f"arrivals: the fleet has no work `{chosen}`")
        seen = self._fleet.works[chosen].run_s
        return self._works[chosen], run_s or min(seen) + drawn * (max(seen) - min(seen))


def _arrivals(source: Poisson | Burst | Recorded, works: _Works) -> Iterable[Arrival]:
    match source:
        case Poisson():
            return _poisson(source, works)
        case Burst():
            return _burst(source, works)
        case Recorded():
            return [
                Arrival(at, account, *works.draw(name, run_s), "", "")
                for at, account, name, run_s in source.arrivals
            ]


def _poisson(source: Poisson, works: _Works) -> Iterator[Arrival]:
    chance = works.chance
    names = list(source.work)
    weights = [source.work[name] for name in names]
    accounts = [f"{source.account_prefix}-{number}" for number in range(1, source.accounts + 1)]
    parts = [1 / number**source.skew for number in range(1, source.accounts + 1)]
    highest = 1 + DAILY_SWING if source.daily else 1.0
    at = source.from_s
    while True:
        at += chance.expovariate(source.per_hour * highest / 3600)
        if at >= source.to_s:
            return
        if source.daily and chance.random() * highest > _of_the_day(at):
            continue  # thinning: the rate of the moment is lower than the highest
        name = chance.choices(names, weights)[0]
        account = chance.choices(accounts, parts)[0]
        yield Arrival(at, account, *works.draw(name), "", "")


def _of_the_day(at: float) -> float:
    return 1 + DAILY_SWING * math.cos((at / 3600 - DAILY_PEAK_H) / 24 * 2 * math.pi)


def _burst(source: Burst, works: _Works) -> Iterator[Arrival]:
    for index in range(source.count):
        yield Arrival(
            source.at_s + index * source.each_s,
            source.account,
            *works.draw(source.work),
            f"{source.account}-one" if source.one_operation else "",
            "" if source.distinct else f"{source.account}-same",
        )


def _named(arrival: Arrival, name: str) -> Arrival:
    """An arrival with an operation id and a fingerprint of its own where its source gave none."""
    return Arrival(
        arrival.at,
        arrival.account_id,
        arrival.work,
        arrival.run_s,
        arrival.operation or name,
        arrival.fingerprint or arrival.operation or name,
    )
