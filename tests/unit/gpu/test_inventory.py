"""Cards as NVML tells them; the fake NVML is checked against the real module's functions."""

import inspect
from pathlib import Path

import pynvml
import pytest

from infra.gpu.cpu import CpuInventory
from infra.gpu.fake import FakeCard, FakeNvml
from infra.gpu.nvml import Nvml, NvmlInventory

FUNCTIONS = [name for name, member in vars(Nvml).items() if name.startswith("nvml") and callable(member)]


def parameters(function: object) -> list[str]:
    """Names of the positional parameters a call has to give."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.default is p.empty and p.name != "self"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_fake_and_the_real_nvml_have_each_function_that_is_used(name: str) -> None:
    wanted = len(parameters(getattr(Nvml, name)))
    assert len(parameters(getattr(FakeNvml, name))) == wanted
    assert len(parameters(getattr(pynvml, name))) == wanted


def test_a_card_is_told_with_its_numbers() -> None:
    inventory = NvmlInventory(FakeNvml([FakeCard("GPU-1", used_mib=36_570, utilisation_percent=70, processes=2)]))
    (card,) = inventory.cards()
    assert (card.uuid, card.label, card.model) == ("GPU-1", "gpu-0", "NVIDIA RTX PRO 6000 Blackwell")
    assert (card.memory_total_mib, card.memory_free_mib) == (97_887, 61_317)
    assert (card.utilisation, card.temperature_c, card.processes) == (0.7, 35, 2)


def test_a_card_that_fell_off_the_bus_is_left_out_and_comes_back() -> None:
    nvml = FakeNvml([FakeCard("GPU-1"), FakeCard("GPU-2")])
    inventory = NvmlInventory(nvml)
    nvml.cards[0].lost = True
    assert [card.uuid for card in inventory.cards()] == ["GPU-2"]
    nvml.cards[0].lost = False
    assert [card.label for card in inventory.cards()] == ["gpu-0", "gpu-1"]


def test_what_a_virtual_card_doesnt_tell_is_none_and_not_nought() -> None:
    (card,) = NvmlInventory(FakeNvml([FakeCard("GPU-1", virtual=True)])).cards()
    assert (card.utilisation, card.temperature_c, card.processes) == (None, None, None)


def test_a_host_without_nvml_has_no_gpus() -> None:
    inventory = NvmlInventory(FakeNvml([FakeCard("GPU-1")], installed=False))
    assert inventory.cards() == ()
    inventory.close()


def test_the_cpu_is_declared_as_such_and_named_after_its_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    (card,) = CpuInventory(one).cards()
    assert (card.model, card.label) == ("CPU", "cpu-0")
    assert card.uuid.startswith("cpu-")
    assert 0 < card.memory_free_mib <= card.memory_total_mib
    assert CpuInventory(one).cards()[0].uuid == card.uuid != CpuInventory(other).cards()[0].uuid


def test_several_cpu_cards_are_told_apart_and_share_the_memory(tmp_path: Path) -> None:
    (alone,) = CpuInventory(tmp_path).cards()
    cards = CpuInventory(tmp_path, count=4).cards()
    assert cards[0].uuid == alone.uuid, "the first keeps its name, and with it its fences"
    assert [card.label for card in cards] == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    assert len({card.uuid for card in cards}) == len(cards)
    assert sum(card.memory_total_mib for card in cards) <= alone.memory_total_mib
    assert all(card.memory_free_mib <= card.memory_total_mib for card in cards)
