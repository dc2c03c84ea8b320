"""Cards as NVML tells them; the fake NVML is checked against the real module's functions."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from infra.gpu.cpu import CpuInventory
from infra.gpu.fake import FakeCard, FakeNvml, ReplayedNvml
from infra.gpu.interface import Nvml
from infra.gpu.nvml import NvmlInventory
from infra.gpu.processes import descends_from

FUNCTIONS = [name for name, member in vars(Nvml).items() if name.startswith("nvml") and callable(member)]


def parameters(function: object) -> list[str]:
    """Names of the parameters a call has to give, in their order."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.default is p.empty and p.name != "self"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_fake_and_the_real_nvml_have_each_function_that_is_used(name: str) -> None:
    wanted = parameters(getattr(pynvml, name))
    assert len(parameters(getattr(Nvml, name))) == len(wanted)
    assert parameters(getattr(FakeNvml, name)) == parameters(getattr(Nvml, name))
    if len(wanted) > 1:  # of one there is nothing to confuse
        assert parameters(getattr(FakeNvml, name))[1:] == wanted[1:]


def test_a_card_is_told_with_its_numbers() -> None:
    inventory = NvmlInventory(
        FakeNvml([FakeCard("GPU-1", used_mib=36_570, utilisation_percent=70, processes=[(7, 10), (8, 20)])])
    )
    (card,) = inventory.cards()
    assert (card.uuid, card.label, card.model) == ("GPU-1", "gpu-0", "NVIDIA RTX PRO 6000 Blackwell")
    assert (card.memory_total_mib, card.memory_free_mib) == (97_887, 61_317)
    assert (card.utilisation, card.temperature_c, card.processes) == (0.7, 35, 2)
    assert (card.power_w, card.ecc_errors, card.xid) == (80, 0, None)


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
    assert (card.power_w, card.ecc_errors, card.xid, card.foreign_mib) == (None, None, None, 0)


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


def test_memory_of_others_is_told_apart_from_ours() -> None:
    nvml = FakeNvml([FakeCard("GPU-1", used_mib=9_000, processes=[(7, 3_000), (8, 2_000), (9, 1_000)])])
    inventory = NvmlInventory(nvml, is_ours=lambda pid: pid == 7)
    (card,) = inventory.cards()
    assert card.foreign_mib == 3_008, "2,000 and 1,000, told in steps of 64"
    assert inventory.ours_mib("GPU-1") == 6_000
    nvml.cards[0].used_mib = 9_500
    assert inventory.ours_mib("GPU-1") == 6_500, "seen between two full looks"
    assert inventory.ours_mib("GPU-2") is None


def test_where_the_driver_hides_whose_memory_it_is_all_that_isnt_ours_counts_as_theirs() -> None:
    nvml = FakeNvml([FakeCard("GPU-1", used_mib=9_000, processes=[(7, 3_000), (8, None)])])
    (card,) = NvmlInventory(nvml, is_ours=lambda pid: pid == 7).cards()
    assert card.foreign_mib == 6_016
    nvml.cards[0].processes = [(7, None)]
    (card,) = NvmlInventory(nvml, is_ours=lambda pid: pid == 7).cards()
    assert card.foreign_mib == 0


def test_a_fault_is_told_of_its_card_until_the_next() -> None:
    one, two = FakeCard("GPU-1"), FakeCard("GPU-2")
    nvml = FakeNvml([one, two])
    inventory = NvmlInventory(nvml)
    assert [card.xid for card in inventory.cards()] == [None, None]
    nvml.fault(two, 31)
    nvml.fault(two, 79)
    assert [card.xid for card in inventory.cards()] == [None, 79]
    assert [card.xid for card in inventory.cards()] == [None, 79]


def test_the_shipped_recording_is_replayed_by_its_clock() -> None:
    now = 0.0
    nvml = ReplayedNvml(clock=lambda: now)
    inventory = NvmlInventory(nvml)
    assert [card.memory_total_mib for card in inventory.cards()] == [97_887, 97_887]
    assert [inventory.ours_mib(card.uuid) for card in nvml.cards] == [686, 686]
    now = 10.0
    assert inventory.cards()[0].utilisation == 0.97
    assert nvml.cards[0].used_mib == 22_815, "the peak that was measured"
    now = 60.0
    inventory.cards()
    assert nvml.cards[1].used_mib == 76_565
    now = 80.0
    inventory.cards()
    now = 90.1
    inventory.cards()
    assert nvml.cards[0].used_mib == 22_815, "it starts anew when it is over"


@pytest.mark.parametrize("text", ["", "{}", "not JSON", '{"cards": [{"nothing": 1}]}'])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match="no recording"):
        ReplayedNvml(path)


def test_a_process_is_ours_when_an_ancestor_is() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert descends_from(child.pid, {os.getpid()})
        assert descends_from(child.pid, {child.pid})
        assert not descends_from(os.getpid(), {child.pid})
    finally:
        child.communicate(b"\n", timeout=30)
    assert not descends_from(child.pid, {os.getpid()}), "it has ended"


def test_memory_of_a_cpu_cards_engine_is_its_process(tmp_path: Path) -> None:
    engines: dict[str, int] = {}
    inventory = CpuInventory(tmp_path, count=2, engines=engines)
    one, other = (card.uuid for card in inventory.cards())
    assert inventory.ours_mib(one) is None
    engines[one] = os.getpid()
    assert (inventory.ours_mib(one) or 0) > 5
    assert inventory.ours_mib(other) is None
