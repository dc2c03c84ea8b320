"""Who gets which card, and the words for who doesn't."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.contracts import timeouts
from workflows.domain.placement.decide import decide
from workflows.domain.placement.state import Assignment, CardState, Ticket

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CARD = CardState(
    uuid="c1",
    label="gpu-1",
    engines=frozenset({"native"}),
    capabilities=frozenset({"image_upscale"}),
    vram_total_mib=1000,
    reported_at=NOW,
    cordoned=False,
    busy=False,
)


def ticket(
    name: str,
    account: str = "a",
    *,
    age: float = 0,
    engine: str = "native",
    needs: str = "image_upscale",
    mib: int = 500,
) -> Ticket:
    return Ticket(
        task_id=name,
        account_id=account,
        engine=engine,
        capability=needs,
        vram_budget_mib=mib,
        enqueued_at=NOW - timedelta(seconds=age),
    )


def test_a_free_card_goes_to_who_waits() -> None:
    assert decide(NOW, [CARD], [ticket("t")]).assignments == (Assignment("t", "c1"),)


@pytest.mark.parametrize(
    ("card", "asked", "why"),
    [
        (replace(CARD, busy=True), ticket("t"), "gpu-1: busy"),
        (replace(CARD, cordoned=True), ticket("t"), "gpu-1: cordoned"),
        (
            replace(CARD, reported_at=NOW - timeouts.REPORT_FRESH - timedelta(seconds=1)),
            ticket("t"),
            "gpu-1: its host is silent",
        ),
        (CARD, ticket("t", needs="video"), "gpu-1: no video"),
        (CARD, ticket("t", engine="comfyui"), "gpu-1: no comfyui engine"),
        (CARD, ticket("t", mib=1001), "gpu-1: 1000 MiB of 1001 MiB needed"),
        (replace(CARD, busy=True), ticket("t", needs="video"), "gpu-1: no video"),
    ],
)
def test_a_card_that_does_not_serve_says_why(card: CardState, asked: Ticket, why: str) -> None:
    decision = decide(NOW, [card], [asked])
    assert not decision.assignments
    assert decision.reasons == {"t": (why,)}


def test_without_any_card_that_is_said_too() -> None:
    assert decide(NOW, [], [ticket("t")]).reasons == {"t": ("no card is known",)}


def test_who_got_nothing_hears_that_the_card_went_to_an_earlier_one() -> None:
    decision = decide(NOW, [CARD], [ticket("old", age=2), ticket("new", age=1)])
    assert decision.assignments == (Assignment("old", "c1"),)
    assert decision.reasons == {"new": ("gpu-1: given to an earlier one",)}


def test_a_ticket_that_fits_nowhere_does_not_hold_up_the_next() -> None:
    decision = decide(NOW, [CARD], [ticket("big", age=9, mib=9000), ticket("small", age=1)])
    assert decision.assignments == (Assignment("small", "c1"),)


def test_the_smallest_fitting_card_is_taken() -> None:
    large = replace(CARD, uuid="c0", label="gpu-0", vram_total_mib=80_000)
    assert decide(NOW, [large, CARD], [ticket("t")]).assignments == (Assignment("t", "c1"),)


def test_accounts_take_turns_within_one_look() -> None:
    cards = [replace(CARD, uuid=f"c{n}") for n in range(4)]
    waiting = [ticket(f"a{n}", "a", age=100 - n) for n in range(10)] + [ticket("b0", "b", age=1)]
    given = [each.task_id for each in decide(NOW, cards, waiting).assignments]
    assert given == ["a0", "b0", "a1", "a2"]


def test_with_one_card_a_hundred_tickets_delay_somebody_elses_by_one_run_at_most() -> None:
    """Each look has one free card, as on a host with a single one."""
    waiting = [ticket(f"a{n}", "a", age=1000 - n) for n in range(100)]
    served: dict[str, datetime] = {}
    order: list[str] = []
    now = NOW
    for look in range(6):
        now += timedelta(seconds=10)
        if look == 2:
            waiting.append(replace(ticket("b0", "b"), enqueued_at=now - timedelta(seconds=1)))
        card = replace(CARD, reported_at=now)
        (given,) = decide(now, [card], waiting, served=served).assignments
        account = next(each.account_id for each in waiting if each.task_id == given.task_id)
        served[account] = now
        waiting = [each for each in waiting if each.task_id != given.task_id]
        order.append(account)
    assert "b" in order[2:4]


tickets = st.lists(
    st.builds(
        ticket,
        name=st.uuids().map(str),
        account=st.sampled_from("abc"),
        age=st.integers(0, 60),
        needs=st.sampled_from(["image_upscale", "video"]),
        mib=st.integers(0, 2000),
    ),
    max_size=12,
    unique_by=lambda each: each.task_id,
)
cards = st.lists(
    st.builds(
        CardState,
        uuid=st.uuids().map(str),
        label=st.just("gpu"),
        capabilities=st.frozensets(st.sampled_from(["image_upscale", "video"])),
        vram_total_mib=st.integers(0, 2000),
        reported_at=st.integers(0, 10).map(lambda s: NOW - timedelta(seconds=s)),
        cordoned=st.booleans(),
        busy=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda each: each.uuid,
)


@given(cards=cards, waiting=tickets)
def test_every_decision_is_lawful(cards: list[CardState], waiting: list[Ticket]) -> None:
    decision = decide(NOW, cards, waiting)
    by_uuid = {card.uuid: card for card in cards}
    by_task = {each.task_id: each for each in waiting}
    assert len({each.card_uuid for each in decision.assignments}) == len(decision.assignments)
    for each in decision.assignments:
        card, asked = by_uuid[each.card_uuid], by_task[each.task_id]
        assert not card.busy
        assert not card.cordoned
        assert NOW - card.reported_at <= timeouts.REPORT_FRESH
        assert asked.capability in card.capabilities
        assert asked.vram_budget_mib <= card.vram_total_mib
    assert {each.task_id for each in decision.assignments} | set(decision.reasons) == set(by_task)


@given(cards=cards, waiting=tickets, seed=st.integers())
def test_the_order_of_what_is_seen_does_not_matter(
    cards: list[CardState], waiting: list[Ticket], seed: int
) -> None:
    chance = random.Random(seed)
    shuffled_cards, shuffled = list(cards), list(waiting)
    chance.shuffle(shuffled_cards)
    chance.shuffle(shuffled)
    assert set(decide(NOW, cards, waiting).assignments) == set(decide(NOW, shuffled_cards, shuffled).assignments)


def test_a_card_that_a_ticket_came_back_from_is_its_last_choice() -> None:
    back = replace(ticket("t"), came_back_from=frozenset({"c1"}))
    larger = replace(CARD, uuid="c2", label="gpu-2", vram_total_mib=9000)
    assert decide(NOW, [CARD, larger], [back]).assignments == (Assignment("t", "c2"),)
    assert decide(NOW, [CARD], [back]).assignments == (Assignment("t", "c1"),), "but not refused"
