"""Replaying a scenario: a clock that jumps from event to event, cards that load what they run."""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from workers.simulate.scenario import Arrival, Scenario
from workflows.domain.placement.fleet import Card, Given, Waiting
from workflows.domain.placement.pool import Pool
from workflows.domain.placement.residency import Loading, loading, unfit


class PolicyName(StrEnum):
    """Who decides."""

    HOLDFAST = "holdfast"
    """The placement code of production."""
    FIFO = "fifo"
    """The baseline: the oldest request that a free card could take, on the card that is free longest."""


@dataclass(frozen=True, slots=True)
class Run:
    """One request's way.

    Attributes:
        arrival: The request.
        cards: Where it ran.
        started_at: When its card began with it, loading included.
        load_s: Seconds of loading before its work began.
        loaded: Names of what was loaded.
        evicted: Names of what was evicted.
        ended_at: When it was done.
    """

    arrival: Arrival
    cards: tuple[str, ...]
    started_at: float
    load_s: float
    loaded: tuple[str, ...]
    evicted: tuple[str, ...]
    ended_at: float

    @property
    def wait_s(self) -> float:
        """Seconds from the request until its work begins, its loading included."""
        return self.started_at + self.load_s - self.arrival.at

    @property
    def total_s(self) -> float:
        """Seconds from the request to its end."""
        return self.ended_at - self.arrival.at


@dataclass(slots=True)
class Replayed:
    """What came of a scenario under one policy.

    Attributes:
        policy: Whose decisions.
        runs: In the order of their ends.
        repeated: Requests that were answered with a task that existed, by operation id or as a possible duplicate.
        unplaced: Requests that no card of the fleet can ever take: refused at once.
        decide_s: Seconds of computing of each decision.
    """

    policy: PolicyName
    runs: list[Run] = field(default_factory=list)
    repeated: int = 0
    unplaced: int = 0
    decide_s: list[float] = field(default_factory=list)


class Decider(Protocol):
    """What a policy answers to."""

    def put_ticket(self, waiting: Waiting) -> None:
        """Somebody waits."""

    def put_card(self, card: Card) -> None:
        """A card is as said from now on."""

    def left_card(self, account_id: str) -> None:
        """One of the account's is off its card."""

    def decide(self, now: float) -> list[Given]:
        """Who gets what, now."""


class Fifo:
    """The baseline. It knows nothing of accounts, lengths or what is loaded where."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: deque[Waiting] = deque()
        self._free: dict[str, Card] = {}

    def put_ticket(self, waiting: Waiting) -> None:
        """To the end of the queue."""
        self._waiting.append(waiting)

    def put_card(self, card: Card) -> None:
        """A free card goes behind the other free ones."""
        self._free.pop(card.uuid, None)
        if card.busy_until is None:
            self._free[card.uuid] = card

    def left_card(self, account_id: str) -> None:
        """Accounts are all the same to it."""

    def decide(self, now: float) -> list[Given]:
        """The oldest that a free card can take, until there is none."""
        del now
        given: list[Given] = []
        behind: list[Waiting] = []
        while self._waiting and self._free:
            waiting = self._waiting.popleft()
            cards = self._cards_for(waiting)
            if cards:
                given.append(Given(waiting.task_id, cards))
                for uuid in cards:
                    del self._free[uuid]
            else:
                behind.append(waiting)
        self._waiting.extendleft(reversed(behind))
        return given

    def _cards_for(self, waiting: Waiting) -> tuple[str, ...]:
        hosts: dict[str, list[str]] = {}
        for card in self._free.values():
            if unfit(card, waiting.work) is None and loading(card, waiting.work) is not None:
                hosts.setdefault(card.host, []).append(card.uuid)
                if len(hosts[card.host]) == waiting.work.cards:
                    return tuple(hosts[card.host])
        return ()


class Replay:
    """One scenario under one policy."""

    def __init__(self, scenario: Scenario, policy: PolicyName) -> None:
        """Nothing happened yet."""
        self._scenario = scenario
        self._decider: Decider = Pool(scenario.policy) if policy is PolicyName.HOLDFAST else Fifo()
        self._cards = {card.uuid: card for card in scenario.cards}
        self._asked: dict[str, Arrival] = {}
        self._operations: set[tuple[str, str]] = set()
        self._recent: dict[tuple[str, str], float] = {}
        self._ends: list[tuple[float, int, Run]] = []
        self._able: dict[str, bool] = {}
        self._count = itertools.count()
        self.result = Replayed(policy)

    def run(self) -> Replayed:
        """Replay it to its end."""
        for card in self._cards.values():
            self._decider.put_card(card)
        arrivals = deque(self._scenario.arrivals)
        while arrivals or self._ends:
            now = min(
                arrivals[0].at if arrivals else float("inf"), self._ends[0][0] if self._ends else float("inf")
            )
            while self._ends and self._ends[0][0] <= now:
                self._end(heapq.heappop(self._ends)[2])
            while arrivals and arrivals[0].at <= now:
                self._arrive(arrivals.popleft())
            began = time.perf_counter()
            given = self._decider.decide(now)
            self.result.decide_s.append(time.perf_counter() - began)
            for one in given:
                self._start(one, now)
        return self.result

    def _arrive(self, arrival: Arrival) -> None:
        operation = (arrival.account_id, arrival.operation)
        same = (arrival.account_id, arrival.fingerprint)
        recent = arrival.at - self._recent.get(same, float("-inf")) <= self._scenario.duplicate_window_s
        if operation in self._operations or recent:
            self.result.repeated += 1
            return
        self._operations.add(operation)
        self._recent[same] = arrival.at
        if not self._possible(arrival):
            self.result.unplaced += 1
            return
        task_id = f"{arrival.account_id}/{arrival.operation}"
        self._asked[task_id] = arrival
        self._decider.put_ticket(Waiting(task_id, arrival.account_id, arrival.work, arrival.at))

    def _possible(self, arrival: Arrival) -> bool:
        key = arrival.work.key
        if key not in self._able:
            empty = (replace(card, residents=()) for card in self._scenario.cards)
            self._able[key] = any(
                unfit(card, arrival.work) is None and loading(card, arrival.work) is not None for card in empty
            )
        return self._able[key]

    def _start(self, given: Given, now: float) -> None:
        arrival = self._asked.pop(given.task_id)
        plans = [self._load(self._cards[uuid], arrival) for uuid in given.cards]
        load_s = max(plan.seconds for plan in plans)
        ended_at = now + load_s + arrival.run_s
        for uuid, plan in zip(given.cards, plans, strict=True):
            expected = now + load_s + arrival.work.run_s
            card = replace(self._cards[uuid], residents=plan.after, busy_until=expected)
            self._cards[uuid] = card
            self._decider.put_card(card)
        run = Run(
            arrival=arrival,
            cards=given.cards,
            started_at=now,
            load_s=load_s,
            loaded=tuple(part.name for plan in plans for part in plan.load),
            evicted=tuple(part.name for plan in plans for part in plan.evict),
            ended_at=ended_at,
        )
        heapq.heappush(self._ends, (ended_at, next(self._count), run))

    def _load(self, card: Card, arrival: Arrival) -> Loading:
        plan = loading(card, arrival.work)
        if plan is None or unfit(card, arrival.work) is not None:
            raise AssertionError(f"{arrival.work.key} was given {card.label}, which it doesn't fit")
        return plan

    def _end(self, run: Run) -> None:
        self.result.runs.append(run)
        for uuid in run.cards:
            card = replace(self._cards[uuid], busy_until=None)
            self._cards[uuid] = card
            self._decider.put_card(card)
        self._decider.left_card(run.arrival.account_id)


def replay(scenario: Scenario, policies: Iterable[PolicyName] = PolicyName) -> dict[PolicyName, Replayed]:
    """The scenario under each policy: the same arrivals, the same cards, the same run times."""
    return {policy: Replay(scenario, policy).run() for policy in policies}
