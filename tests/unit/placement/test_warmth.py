"""How many cards should be warm, and which idle ones are warmed up: bounded, cheapest first, no other's undone."""

from dataclasses import replace

import pytest

from workflows.domain.placement.fleet import Card, Resident, Standing, Work
from workflows.domain.placement.warmth import Arrivals, Target, WarmUp, cards_wanted, warm_ups

FLUX = Resident("flux", 16_000, 12.0)
HAIR = Resident("hair", 8_000, 8.0)


def work(key: str, *residents: Resident, cards: int = 1) -> Work:
    return Work(
        key=key,
        capability="edit",
        engine="native",
        budget_mib=20_000,
        run_s=10.0,
        residents=residents,
        cards=cards,
    )


def card(uuid: str, *residents: Resident, **more: object) -> Card:
    known = Card(
        uuid, uuid, "a", frozenset({"native"}), frozenset({"edit"}), 32_000, reported_at=0.0, residents=residents
    )
    return replace(known, **more)  # type: ignore[arg-type]  # fields of a card, by name


FLUX_WORK, HAIR_WORK = work("flux", FLUX), work("hair", HAIR)


@pytest.mark.parametrize(
    ("arrivals", "least", "most", "wanted"),
    [
        (Arrivals(), 0, 8, 0),
        (Arrivals(), 2, 8, 2),
        (Arrivals(), 9, 8, 8),
        (Arrivals(3, 3), 0, 8, 0),  # a fifth of a card's time
        (Arrivals(15, 15), 0, 8, 1),
        (Arrivals(40, 40), 0, 8, 3),
        (Arrivals(20, 40), 0, 8, 4),  # a rise goes on
        (Arrivals(60, 40), 0, 8, 3),  # a fall is believed when it is there
        (Arrivals(4_000, 4_000), 0, 8, 8),
    ],
)
def test_cards_are_wanted_for_what_comes(arrivals: Arrivals, least: int, most: int, wanted: int) -> None:
    assert cards_wanted(arrivals, half_s=150.0, run_s=10.0, least=least, most=most) == wanted


def test_idle_cards_are_warmed_up_to_what_is_wanted() -> None:
    cards = [card("a", FLUX), card("b"), card("c"), card("d")]
    assert warm_ups([Target("flux", FLUX_WORK, 2)], cards, ()) == [WarmUp("flux", "b")]
    assert warm_ups([Target("flux", FLUX_WORK, 3)], cards, ()) == [WarmUp("flux", "b"), WarmUp("flux", "c")]
    assert warm_ups([Target("flux", FLUX_WORK, 1)], cards, ()) == []
    assert warm_ups([Target("flux", FLUX_WORK, 3)], cards, [WarmUp("flux", "c")]) == [WarmUp("flux", "b")]


@pytest.mark.parametrize(
    "unusable",
    [
        {"busy_until": 9.0},
        {"standing": Standing.CORDONED},
        {"standing": Standing.QUARANTINED},
        {"capabilities": frozenset()},
        {"total_mib": 19_999},
        {"foreign_mib": 12_001},
    ],
)
def test_a_card_that_is_not_idle_or_does_not_fit_is_left_alone(unusable: dict[str, object]) -> None:
    assert warm_ups([Target("flux", FLUX_WORK, 1)], [card("a", **unusable)], ()) == []


def test_cards_with_room_come_first_and_what_another_is_to_keep_stays() -> None:
    video = Resident("video", 24_000, 20.0)
    targets = [Target("flux", FLUX_WORK, 2), Target("video", work("video", video), 1)]
    assert warm_ups(targets, [card("a", video), card("b")], ()) == [WarmUp("flux", "b")]
    both = [card("a", video), card("b", video)]
    assert warm_ups(targets, both, ()) == [WarmUp("flux", "a")], "one of two may go, the other is to be kept"


def test_one_card_is_given_to_one_model_at_a_time_and_gangs_to_none() -> None:
    targets = [Target("flux", FLUX_WORK, 1), Target("hair", HAIR_WORK, 1)]
    assert warm_ups(targets, [card("a")], ()) == [WarmUp("flux", "a")]
    assert warm_ups(targets[1:], [card("a")], [WarmUp("flux", "a")]) == []
    assert warm_ups([Target("gang", work("gang", FLUX, cards=2), 1)], [card("a"), card("b")], ()) == []
