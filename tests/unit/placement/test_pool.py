"""Who gets which card: what fits, fairness, short work, residency, gangs, and that nobody is starved."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.domain.placement.fleet import (
    Card,
    Given,
    Policy,
    Priority,
    Resident,
    Share,
    Standing,
    Waiting,
    Work,
)
from workflows.domain.placement.pool import Pool, decide
from workflows.domain.placement.residency import loading, unfit

CARD = Card(
    uuid="c1",
    label="gpu-1",
    host="h1",
    engines=frozenset({"native"}),
    capabilities=frozenset({"image_upscale"}),
    total_mib=1000,
    reported_at=0.0,
)
UPSCALE = Work(key="upscale", capability="image_upscale", engine="native", budget_mib=500, run_s=10.0)


def waiting(name: str, account: str = "a", *, at: float = 0.0, work: Work = UPSCALE) -> Waiting:
    return Waiting(task_id=name, account_id=account, work=work, enqueued_at=at)


def cards(number: int) -> list[Card]:
    return [replace(CARD, uuid=f"c{index}") for index in range(number)]


def finish(pool: Pool, given_: Given, account: str) -> None:
    """The run is over: its card is free and keeps what is loaded."""
    for uuid in given_.cards:
        pool.put_card(replace(pool.cards[uuid], busy_until=None))
    pool.left_card(account)


def test_a_free_card_goes_to_who_waits() -> None:
    assert decide(0.0, [CARD], [waiting("t")]) == [Given("t", ("c1",))]


@pytest.mark.parametrize(
    "card",
    [
        replace(CARD, busy_until=5.0),
        replace(CARD, standing=Standing.CORDONED),
        replace(CARD, standing=Standing.QUARANTINED),
        replace(CARD, reported_at=-6.0),
        replace(CARD, capabilities=frozenset({"video"})),
        replace(CARD, engines=frozenset({"comfyui"})),
        replace(CARD, total_mib=499),
        replace(CARD, foreign_mib=501),
    ],
)
def test_a_card_that_does_not_serve_is_not_given(card: Card) -> None:
    assert not decide(0.0, [card], [waiting("t")])


def test_what_fits_nowhere_does_not_hold_up_the_next() -> None:
    big = replace(UPSCALE, key="big", budget_mib=9000)
    assert decide(5.0, [replace(CARD, reported_at=5.0)], [waiting("big", work=big), waiting("small", at=4.0)]) == [
        Given("small", ("c1",))
    ]


def test_the_smallest_fitting_card_is_taken() -> None:
    large = replace(CARD, uuid="c0", total_mib=80_000)
    assert decide(0.0, [large, CARD], [waiting("t")]) == [Given("t", ("c1",))]


def test_a_hundred_tickets_of_one_account_do_not_delay_anothers_first() -> None:
    pool = Pool()
    pool.put_card(CARD)
    for index in range(100):
        pool.put_ticket(waiting(f"a{index:03d}", "a"))
    (first,) = pool.decide(0.0)
    pool.put_ticket(waiting("b", "b", at=1.0))
    finish(pool, first, "a")
    pool.put_card(replace(pool.cards["c1"], reported_at=10.0))
    assert pool.decide(10.0)[0].task_id == "b"


def test_a_weight_of_two_gets_twice_as_much() -> None:
    pool = Pool(Policy(shares={"a": Share(weight=2.0)}))
    pool.put_card(CARD)
    for index in range(60):
        pool.put_ticket(waiting(f"a{index:03d}", "a"))
        pool.put_ticket(waiting(f"b{index:03d}", "b"))
    served = {"a": 0, "b": 0}
    for turn in range(30):
        pool.put_card(replace(pool.cards["c1"], reported_at=turn * 10.0))
        (one,) = pool.decide(turn * 10.0)
        served[one.task_id[0]] += 1
        finish(pool, one, one.task_id[0])
    assert served == {"a": 20, "b": 10}


def test_an_account_at_its_limit_waits_and_goes_on_when_one_of_its_own_ends() -> None:
    pool = Pool(Policy(shares={"a": Share(in_flight_max=1)}))
    for card in cards(3):
        pool.put_card(card)
    pool.put_ticket(waiting("a1", "a"))
    pool.put_ticket(waiting("a2", "a", at=0.1))
    pool.put_ticket(waiting("b1", "b", at=0.2))
    first, second = pool.decide(1.0)
    assert {first.task_id, second.task_id} == {"a1", "b1"}
    assert not pool.decide(1.0)
    finish(pool, next(each for each in (first, second) if each.task_id == "a1"), "a")
    assert [each.task_id for each in pool.decide(1.0)] == ["a2"]


def test_short_work_goes_before_long_work_that_came_first_but_not_for_ever() -> None:
    long = replace(UPSCALE, key="long", run_s=600.0)
    short = replace(UPSCALE, key="short", run_s=5.0)
    policy = Policy()
    came_later = min(policy.patience * long.run_s, policy.patience_s_max) - policy.patience * short.run_s
    for at, first in ((came_later - 1, "short"), (came_later + 1, "long")):
        now = at + 1
        card = replace(CARD, reported_at=now)
        tickets = [waiting("long", "a", work=long), waiting("short", "b", at=at, work=short)]
        assert decide(now, [card], tickets)[0].task_id == first


def test_a_class_is_a_head_start_and_no_more() -> None:
    batch = replace(UPSCALE, key="batch", priority=Priority.BATCH)
    head_start = Policy().head_start_s[Priority.BATCH]
    for at, first in ((head_start - 1, "urgent"), (head_start + 1, "batch")):
        now = at + 1
        tickets = [waiting("batch", "a", work=batch), waiting("urgent", "b", at=at)]
        assert decide(now, [replace(CARD, reported_at=now)], tickets)[0].task_id == first


WEIGHTS = Resident("flux/unet", 400, load_s=15.0)
OTHER = Resident("wan/unet", 400, load_s=20.0)
FLUX = replace(UPSCALE, key="flux", residents=(WEIGHTS,))
WAN = replace(UPSCALE, key="wan", residents=(OTHER,))


def test_the_warm_card_is_preferred() -> None:
    warm = replace(CARD, uuid="c9", residents=(WEIGHTS,))
    assert decide(0.0, [CARD, warm], [waiting("t", work=FLUX)]) == [Given("t", ("c9",))]


def test_the_warm_model_goes_first_within_what_loading_weighs() -> None:
    warm = replace(CARD, residents=(WEIGHTS,), total_mib=800)
    lead = Policy().reload_weight * (OTHER.load_s + WEIGHTS.load_s)  # the waiting one's weights would be lost
    for at, first in ((lead - 1, "flux"), (lead + 1, "wan")):
        now = at + 1
        tickets = [waiting("wan", "a", work=WAN), waiting("flux", "b", at=at, work=FLUX)]
        assert decide(now, [replace(warm, reported_at=now)], tickets)[0].task_id == first


@pytest.mark.parametrize(("free_in", "waits"), [(14.0, True), (16.0, False)])
def test_a_busy_warm_card_is_waited_for_when_it_is_free_before_loading_ends(
    free_in: float, *, waits: bool
) -> None:
    warm = replace(CARD, uuid="warm", residents=(WEIGHTS,), busy_until=free_in)
    given_ = decide(0.0, [CARD, warm], [waiting("t", work=FLUX)])
    assert (not given_) is waits


def test_a_line_that_one_warm_card_can_not_drain_in_time_gets_a_second() -> None:
    warm = replace(CARD, uuid="warm", residents=(WEIGHTS,), busy_until=1.0)
    given_ = decide(0.0, [CARD, warm], [waiting(f"t{index}", work=FLUX) for index in range(5)])
    assert [each.cards for each in given_] == [("c1",)]


def test_the_last_warm_copy_that_others_wait_for_is_not_evicted_while_another_card_serves() -> None:
    small = replace(CARD, total_mib=600, residents=(OTHER,), uuid="has-wan")
    empty = replace(CARD, total_mib=600, uuid="zz-empty")
    given_ = decide(0.0, [small, empty], [waiting("flux", work=FLUX), waiting("wan", "b", at=0.5, work=WAN)])
    assert set(given_) == {Given("flux", ("zz-empty",)), Given("wan", ("has-wan",))}


GANG = replace(UPSCALE, key="gang", cards=2, run_s=100.0)


def test_a_gang_gets_cards_of_one_host_at_once() -> None:
    pair = [replace(CARD, uuid="x1", host="h2"), replace(CARD, uuid="x2", host="h2")]
    assert decide(0.0, [CARD, *pair], [waiting("g", work=GANG)]) == [Given("g", ("x1", "x2"))]
    assert not decide(0.0, [CARD, pair[0]], [waiting("g", work=GANG)])


@pytest.mark.parametrize(("run_s", "backfilled"), [(20.0, True), (60.0, False)])
def test_a_card_is_kept_for_a_gang_but_for_work_that_is_over_in_time(run_s: float, *, backfilled: bool) -> None:
    busy = replace(CARD, uuid="c2", busy_until=50.0)
    small = replace(UPSCALE, key="small", run_s=run_s)
    tickets = [waiting("g", work=GANG, at=-1000.0), waiting("s", "b", work=small)]
    given_ = decide(0.0, [CARD, busy], tickets)
    assert [each.task_id for each in given_] == (["s"] if backfilled else [])


def test_small_work_can_not_starve_a_gang() -> None:
    pool = Pool()
    for card in cards(2):
        pool.put_card(card)
    pool.put_ticket(waiting("small0", "b", at=0.0))
    running = {one.task_id: one for one in pool.decide(0.0)}
    pool.put_ticket(waiting("gang", "a", at=0.5, work=GANG))
    for second in range(1, 400):
        now = float(second)
        for card in list(pool.cards.values()):
            pool.put_card(replace(card, reported_at=now))
        pool.put_ticket(waiting(f"small{second}", "b", at=now))
        for task_id, one in list(running.items()):
            if pool.cards[one.cards[0]].busy_until == now:
                finish(pool, one, "b")
                del running[task_id]
        for one in pool.decide(now):
            if one.task_id == "gang":
                return
            running[one.task_id] = one
    pytest.fail("the gang never got its cards")


def test_a_card_that_a_ticket_came_back_from_is_its_last_choice() -> None:
    back = replace(waiting("t"), came_back_from=frozenset({"c1"}))
    larger = replace(CARD, uuid="c2", total_mib=9000)
    assert decide(0.0, [CARD, larger], [back]) == [Given("t", ("c2",))]
    assert decide(0.0, [CARD], [back]) == [Given("t", ("c1",))], "but it is not refused"


def test_who_leaves_the_queue_is_given_nothing() -> None:
    pool = Pool()
    pool.put_card(CARD)
    for name in ("a", "b", "c"):
        pool.put_ticket(waiting(name))
    pool.drop_ticket("a")
    pool.drop_ticket("b")
    pool.drop_ticket("nobody")
    assert pool.decide(0.0) == [Given("c", ("c1",))]
    assert not pool.lines


parts = st.sampled_from(
    [Resident(f"r{index}", 100 * (index + 1), load_s=float(index), working_mib=50 * index) for index in range(5)]
)
works = st.builds(
    Work,
    key=st.uuids().map(str),
    capability=st.sampled_from(["image_upscale", "video"]),
    engine=st.just("native"),
    budget_mib=st.integers(0, 800),
    run_s=st.floats(0.1, 500.0),
    residents=st.lists(parts, max_size=3, unique=True).map(tuple),
    priority=st.sampled_from(Priority),
)
some_cards = st.lists(
    st.builds(
        Card,
        uuid=st.uuids().map(str),
        label=st.just("gpu"),
        host=st.sampled_from(["h1", "h2"]),
        engines=st.just(frozenset({"native"})),
        capabilities=st.frozensets(st.sampled_from(["image_upscale", "video"])),
        total_mib=st.integers(0, 1500),
        reported_at=st.floats(-10.0, 0.0),
        foreign_mib=st.integers(0, 200),
        residents=st.lists(parts, max_size=2, unique=True).map(tuple),
        pinned=st.frozensets(st.sampled_from(["r0", "r1"])),
        standing=st.sampled_from(Standing),
        busy_until=st.none() | st.floats(0.0, 100.0),
    ),
    max_size=6,
    unique_by=lambda each: each.uuid,
)
some_waiting = st.lists(
    st.builds(
        Waiting,
        task_id=st.uuids().map(str),
        account_id=st.sampled_from("abc"),
        work=works,
        enqueued_at=st.floats(-100.0, 0.0),
    ),
    max_size=10,
    unique_by=lambda each: each.task_id,
)


@given(fleet=some_cards, queue=some_waiting)
def test_every_decision_is_lawful(fleet: list[Card], queue: list[Waiting]) -> None:
    given_ = decide(0.0, fleet, queue)
    by_uuid = {card.uuid: card for card in fleet}
    by_task = {each.task_id: each for each in queue}
    used = [uuid for one in given_ for uuid in one.cards]
    assert len(used) == len(set(used))
    for one in given_:
        for uuid in one.cards:
            card, work = by_uuid[uuid], by_task[one.task_id].work
            assert card.busy_until is None
            assert card.standing is Standing.OPEN
            assert -card.reported_at <= Policy().fresh_s
            assert unfit(card, work) is None
            plan = loading(card, work)
            assert plan is not None
            assert not {each.name for each in plan.evict} & card.pinned
            occupied = sum(each.mib for each in plan.after) + card.foreign_mib
            before = sum(each.mib for each in card.residents) + card.foreign_mib
            assert occupied <= max(card.total_mib, before)


@given(fleet=some_cards, queue=some_waiting, seed=st.integers())
def test_the_order_in_which_cards_are_seen_does_not_matter(
    fleet: list[Card], queue: list[Waiting], seed: int
) -> None:
    shuffled = list(fleet)
    random.Random(seed).shuffle(shuffled)
    assert {one.task_id for one in decide(0.0, fleet, queue)} == {
        one.task_id for one in decide(0.0, shuffled, queue)
    }


@given(fleet=some_cards, queue=some_waiting, gone=st.data())
def test_a_pool_kept_by_events_decides_like_one_made_at_once(
    fleet: list[Card], queue: list[Waiting], gone: st.DataObject
) -> None:
    pool = Pool()
    for card in fleet:
        pool.put_card(replace(card, busy_until=1.0, residents=()))
    for each in sorted(queue, key=lambda one: (one.enqueued_at, one.task_id)):
        pool.put_ticket(each)
    leave = gone.draw(st.sets(st.sampled_from([each.task_id for each in queue]))) if queue else set()
    for task_id in leave:
        pool.drop_ticket(task_id)
    for card in fleet:
        pool.put_card(card)
    expected = Pool()
    for card in fleet:
        expected.put_card(card)
    for each in sorted(queue, key=lambda one: (one.enqueued_at, one.task_id)):
        expected.put_ticket(each)  # whoever left has taken his account's turn, as in the other
    for task_id in leave:
        del expected.tickets[task_id]
    for line in expected.lines.values():
        for task_id in leave & {each.task_id for each in queue if each.work.key == line.work.key}:
            account = next(each.account_id for each in queue if each.task_id == task_id)
            line.remove(account, task_id)
    expected.lines = {key: line for key, line in expected.lines.items() if line.length}
    assert pool.decide(0.0) == expected.decide(0.0)
