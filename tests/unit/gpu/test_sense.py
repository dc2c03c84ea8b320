"""What a card can't tell is refused; its last good figures stand."""

import math
from dataclasses import replace

import pytest

from infra.gpu.fake import FakeCard, FakeNvml
from infra.gpu.inventory import Card
from infra.gpu.nvml import NvmlInventory
from infra.gpu.sense import Sense

GOOD = Card("GPU-1", "gpu-0", "model", memory_total_mib=1000, memory_free_mib=400, utilisation=0.5, power_w=90.0)
WRONG: list[dict[str, object]] = [
    {"memory_total_mib": 0},
    {"memory_total_mib": -5},
    {"memory_total_mib": 2**40},
    {"memory_free_mib": -1},
    {"memory_free_mib": 1001},
    {"foreign_mib": -1},
    {"foreign_mib": 1001},
    {"utilisation": 3.0},
    {"utilisation": math.nan},
    {"utilisation": -0.1},
    {"temperature_c": 4000},
    {"temperature_c": math.nan},
    {"power_w": -1.0},
    {"power_w": math.inf},
    {"ecc_errors": -1},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cant_be_is_refused_and_said(wrong: dict[str, object]) -> None:
    sense = Sense()
    assert sense.judge((GOOD,), at=1) == (GOOD,)
    (card,) = sense.judge((replace(GOOD, **wrong),), at=2)  # type: ignore[arg-type]  # one field of any type
    assert len(card.nonsense) == 1
    assert replace(card, nonsense=()) == GOOD
    assert sense.judge((GOOD,), at=3) == (GOOD,)


def test_a_card_that_never_told_anything_good_has_no_memory() -> None:
    (card,) = Sense().judge((replace(GOOD, memory_free_mib=-1),), at=1)
    assert (card.memory_total_mib, card.memory_free_mib) == (0, 0)
    assert card.nonsense


def test_a_clock_that_goes_back_is_said_once_and_one_that_goes_on_is_not() -> None:
    sense = Sense()
    sense.judge((GOOD,), at=1000)
    (card,) = sense.judge((GOOD,), at=10)
    assert card.nonsense == ("a clock that went back by 990 s",)
    assert sense.judge((GOOD,), at=11) == (GOOD,), "from there on it is the clock"
    assert sense.judge((GOOD,), at=10.5) == (GOOD,), "as time servers correct"
    assert sense.judge((GOOD,), at=99_999) == (GOOD,)


def test_one_cards_nonsense_is_not_anothers() -> None:
    other = replace(GOOD, uuid="GPU-2")
    wrong, fine = Sense().judge((replace(GOOD, utilisation=9.0), other), at=1)
    assert (bool(wrong.nonsense), fine) == (True, other)


def test_nonsense_of_the_driver_itself_is_caught() -> None:
    nvml = FakeNvml([FakeCard("GPU-1")])
    inventory, sense = NvmlInventory(nvml), Sense()
    sense.judge(inventory.cards(), at=1)
    nvml.cards[0].used_mib = 200_000
    nvml.cards[0].utilisation_percent = math.nan
    (card,) = sense.judge(inventory.cards(), at=2)
    assert card.nonsense == ("-102113 of 97887 MiB free", "a utilisation of nan")
    assert card.memory_free_mib == 97_287
