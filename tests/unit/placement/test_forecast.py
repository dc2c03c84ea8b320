"""What those who wait are told: their place, when they start, and why not yet."""

from dataclasses import replace

import pytest

from tests.unit.placement.test_pool import CARD, FLUX, GANG, UPSCALE, WEIGHTS, waiting
from workflows.domain.placement.fleet import Card, Policy, Share, Standing, Work
from workflows.domain.placement.forecast import Forecast, forecast, why_not_yet
from workflows.domain.placement.pool import Pool


def pool_of(*cards: Card, policy: Policy | None = None) -> Pool:
    pool = Pool(policy)
    for card in cards:
        pool.put_card(card)
    return pool


def test_positions_and_starts_follow_the_order_and_the_run_times() -> None:
    pool = pool_of(replace(CARD, busy_until=4.0))
    for index in range(3):
        pool.put_ticket(waiting(f"t{index}", at=index * 0.1))
    told = forecast(pool, 1.0)
    assert [told[f"t{index}"] for index in range(3)] == [Forecast(1, 3.0), Forecast(2, 13.0), Forecast(3, 23.0)]


def test_those_that_wait_for_other_cards_are_not_before_it() -> None:
    video = Work(key="video", capability="video", engine="native", budget_mib=0, run_s=100.0)
    pool = pool_of(replace(CARD, busy_until=4.0), replace(CARD, uuid="v", capabilities=frozenset({"video"})))
    pool.put_ticket(waiting("v1", work=video, at=-50.0))
    pool.put_ticket(waiting("v2", work=video, at=-50.0))
    pool.put_ticket(waiting("t", "b"))
    assert forecast(pool, 0.0)["t"] == Forecast(1, 4.0)
    assert forecast(pool, 0.0)["v2"] == Forecast(2, 100.0)


def test_what_no_card_can_take_has_no_estimate() -> None:
    pool = pool_of(CARD)
    pool.put_ticket(waiting("t", work=replace(UPSCALE, key="big", budget_mib=9000)))
    assert forecast(pool, 0.0)["t"] == Forecast(1, None)


def test_a_gang_starts_when_its_last_card_is_free() -> None:
    pool = pool_of(replace(CARD, busy_until=5.0), replace(CARD, uuid="c2", busy_until=9.0))
    pool.put_ticket(waiting("g", work=GANG))
    assert forecast(pool, 0.0)["g"] == Forecast(1, 9.0)


def test_only_the_first_are_told() -> None:
    pool = pool_of(replace(CARD, busy_until=5.0))
    for index in range(10):
        pool.put_ticket(waiting(f"t{index}", at=float(index)))
    assert set(forecast(pool, 10.0, first=4)) == {"t0", "t1", "t2", "t3"}


@pytest.mark.parametrize(
    ("card", "work", "said"),
    [
        (replace(CARD, busy_until=7.0), UPSCALE, "1 of 1 cards: busy."),
        (replace(CARD, busy_until=7.0), UPSCALE, "The first busy one is expected to be free in 7 s."),
        (replace(CARD, standing=Standing.CORDONED), UPSCALE, "1 of 1 cards: cordoned."),
        (replace(CARD, standing=Standing.QUARANTINED), UPSCALE, "1 of 1 cards: quarantined."),
        (replace(CARD, reported_at=-60.0), UPSCALE, "1 of 1 cards: its host is silent."),
        (CARD, replace(UPSCALE, key="v", capability="video"), "1 of 1 cards: no video."),
        (CARD, replace(UPSCALE, key="c", engine="comfyui"), "1 of 1 cards: no comfyui engine."),
        (CARD, replace(UPSCALE, key="b", budget_mib=2000), "1 of 1 cards: 1000 MiB of 2000 MiB needed."),
        (
            replace(CARD, foreign_mib=900),
            UPSCALE,
            "1 of 1 cards: 1000 MiB (900 MiB can't be freed) of 500 MiB needed.",
        ),
        (CARD, GANG, "1 of 1 cards: free, but 2 of one host are needed at once."),
    ],
)
def test_why_not_yet_in_words(card: Card, work: Work, said: str) -> None:
    pool = pool_of(card)
    pool.put_ticket(waiting("t", work=work))
    assert not pool.decide(0.0)
    assert said in why_not_yet(pool, ["t"], 0.0)["t"]


def test_a_free_card_that_would_have_to_load_says_so() -> None:
    pool = pool_of(CARD, replace(CARD, uuid="warm", residents=(WEIGHTS,), busy_until=5.0))
    pool.put_ticket(waiting("t", work=FLUX))
    assert not pool.decide(0.0)
    said = why_not_yet(pool, ["t"], 0.0)["t"]
    assert "1 of 2 cards: free, but loading takes 15 s and a warm one is expected sooner." in said


def test_a_card_kept_for_a_gang_says_so() -> None:
    pool = pool_of(CARD, replace(CARD, uuid="c2", busy_until=50.0))
    pool.put_ticket(waiting("g", work=GANG, at=-1000.0))
    pool.put_ticket(waiting("long", "b", work=replace(UPSCALE, key="long", run_s=60.0)))
    assert not pool.decide(0.0)
    assert (
        "1 of 2 cards: kept for work that needs several cards at once." in why_not_yet(pool, ["long"], 0.0)["long"]
    )


def test_the_accounts_own_limit_comes_first() -> None:
    pool = pool_of(CARD, replace(CARD, uuid="c2"), policy=Policy(shares={"a": Share(in_flight_max=1)}))
    for index in range(2):
        pool.put_ticket(waiting(f"t{index}", at=index * 0.1))
    pool.decide(1.0)
    assert why_not_yet(pool, ["t1"], 1.0)["t1"][0] == "Its account has 1 on cards, its limit is 1."


def test_without_any_card_that_is_said() -> None:
    pool = pool_of()
    pool.put_ticket(waiting("t"))
    assert why_not_yet(pool, ["t"], 0.0) == {"t": ("No card is known.",)}
