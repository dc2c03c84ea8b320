"""Every step that moves credits, each with what goes before it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.integration.money.setting import (
    ADJUST,
    DELIVER_LATE,
    EXPIRE,
    FREEZE,
    GRANT,
    LIMIT,
    PRICE,
    RESOLVE,
    Setting,
    Step,
)
from workflows.contracts.states import Status


@dataclass(frozen=True, slots=True)
class Scenario:
    """One step of the platform.

    Attributes:
        name: Of the test.
        before: All that leads to the step.
        step: The step; its answer must be the same whenever it is repeated.
        answers_alike: Whether a repetition answers as the first did; False where it tells that it was one.
        repeats: Whether a repetition leaves nothing more; False where each deed is recorded.
    """

    name: str
    before: Callable[[Setting], Awaitable[None]]
    step: Callable[[Step, Setting], Awaitable[object]]
    answers_alike: bool = True
    repeats: bool = True


def _admit(do: Step, s: Setting) -> Awaitable[object]:
    return do.ledger.admit(s.asked)


def _settle(amount: int = PRICE) -> Callable[[Step, Setting], Awaitable[object]]:
    return lambda do, s: do.ledger.settle(s.settling(amount))


def _release(status: Status = Status.FAILED) -> Callable[[Step, Setting], Awaitable[object]]:
    return lambda do, s: do.ledger.release(s.releasing(status))


def _resolve(amount: int | None) -> Callable[[Step, Setting], Awaitable[object]]:
    return lambda do, s: do.call(RESOLVE, task=s.task, credits=amount, failure=s.failure)


HOLDS = (
    Scenario("hold, placed at once", Setting.begin, _admit),
    Scenario("hold, queued", lambda s: s.begin(card=False), _admit),
    Scenario("hold, refused", lambda s: s.begin(credits_granted=PRICE - 1), _admit),
    Scenario("hold, refused before", Setting.refused, _admit),
    Scenario("hold, held before", Setting.hold, _admit),
    Scenario("hold, over before", Setting.settled, _admit),
    Scenario("hold of what expires", lambda s: s.promise(3, 4), _admit),
    Scenario("hold, other credits expired", lambda s: s.promise(3, 4, due=True), _admit),
    Scenario("hold within a limit", lambda s: s.limited(credits_per_day=100, credits_per_month=100), _admit),
    Scenario("hold, the queue is full", Setting.crowd, _admit),
    Scenario("hold beyond a limit", lambda s: s.limited(credits_per_day=PRICE - 1), _admit),
)
ENDS = (
    Scenario("settle the whole", Setting.run, _settle()),
    Scenario("settle a part", Setting.run, _settle(PRICE - 3)),
    Scenario("settle a canary", lambda s: s.run(canary=True), _settle()),
    Scenario("settle, settled before", Setting.settled, _settle()),
    Scenario("settle a part of what expires", lambda s: s.hold_promises(3, 4), _settle(2)),
    Scenario("settle a part of what expired", lambda s: s.hold_promises(3, 4, due=True), _settle(2)),
    Scenario("release a run", Setting.run, _release()),
    Scenario("release a ticket", lambda s: s.hold(card=False), _release(Status.EXPIRED)),
    Scenario("release, settled before", Setting.settled, _release()),
    Scenario("release what expired", lambda s: s.hold_promises(3, 4, due=True), _release()),
    Scenario("release, other credits expired", lambda s: s.hold_promises(3, 20, 5, due=True), _release()),
    Scenario("release within a limit", Setting.hold_limited, _release()),
)
DOUBTS = (
    Scenario("mark unknown", Setting.run, lambda do, s: do.ledger.mark_unknown(s.unknown())),
    Scenario("resolve as delivered", Setting.doubt, _resolve(PRICE)),
    Scenario("resolve as not run", Setting.doubt, _resolve(None)),
    Scenario(
        "release at the house's cost",
        Setting.doubt,
        lambda do, s: do.ledger.release(s.releasing(actor="manifest:release_unknown")),
    ),
    Scenario("deliver late", Setting.lost, lambda do, s: do.call(DELIVER_LATE, task=s.task)),
)
OPERATORS = (
    Scenario(
        "operator: top up", Setting.begin, lambda do, s: do.call(GRANT, **s.granting(5)), answers_alike=False
    ),
    Scenario(
        "operator: promote", Setting.begin, lambda do, s: do.call(GRANT, **s.promotion(5)), answers_alike=False
    ),
    Scenario(
        "operator: adjust upwards",
        Setting.begin,
        lambda do, s: do.call(ADJUST, **s.adjusting(5)),
        answers_alike=False,
    ),
    Scenario(
        "operator: adjust downwards, of what expires",
        lambda s: s.promise(3, 4),
        lambda do, s: do.call(ADJUST, **s.adjusting(-5)),
        answers_alike=False,
    ),
    Scenario(
        "operator: adjust a generation",
        Setting.settled,
        lambda do, s: do.call(ADJUST, **s.adjusting(4, s.task)),
        answers_alike=False,
    ),
    Scenario(
        "operator: sweep what expired",
        lambda s: s.promise(3, due=True),
        lambda do, s: do.call(EXPIRE),
        answers_alike=False,
    ),
    Scenario("operator: freeze", Setting.begin, lambda do, s: do.call(FREEZE, account=s.account), repeats=False),
    Scenario(
        "operator: limit no more",
        lambda s: s.limited(per_minute=3),
        lambda do, s: do.call(LIMIT, **s.limiting()),
        answers_alike=False,
        repeats=False,
    ),
    Scenario(
        "operator: limit a key",
        Setting.with_key,
        lambda do, s: do.call(LIMIT, **s.limiting(in_flight=3)),
        answers_alike=False,
        repeats=False,
    ),
    Scenario(
        "operator: limit", Setting.settled, lambda do, s: do.call(LIMIT, **s.limiting(per_minute=3)), repeats=False
    ),
)
SCENARIOS = (*HOLDS, *ENDS, *DOUBTS, *OPERATORS)
