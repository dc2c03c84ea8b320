"""What the pool drill sees of the engines' records, and what counts as the same task twice at once."""

import json
import os
from pathlib import Path

import pytest

from infra.engines.native.identity import LOCK_NAME
from workers.drill.pool.watch import Stretch, Watch, at_once

NOBODY = 2**22 + 1
"""No process has such a number: it is beyond the system's highest."""


class Card:
    """An engine's folder as an engine writes it."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self._folder = home / "engines" / name
        self._folder.mkdir(parents=True)
        self.engine(os.getpid())

    def engine(self, pid: int) -> None:
        (self._folder / LOCK_NAME).write_text(f"{pid}\n")

    def accepts(self, run_id: str, *, at: float) -> None:
        run = self._folder / "runs" / run_id
        run.mkdir(parents=True, exist_ok=True)
        (run / "result.json").unlink(missing_ok=True)
        (run / "run.json").write_text(json.dumps({"accepted_at": at, "order": {}}))
        os.utime(run / "run.json", (at, at))

    def finishes(self, run_id: str, *, at: float) -> None:
        result = self._folder / "runs" / run_id / "result.json"
        result.write_text("{}")
        os.utime(result, (at, at))

    def forgets(self, run_id: str) -> None:
        run = self._folder / "runs" / run_id
        for file in run.iterdir():
            file.unlink()
        run.rmdir()


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return Card(tmp_path, "cpu-a-0")


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Looks when told to."""
    return Watch([tmp_path])


def test_a_run_lasts_from_its_acceptance_to_its_result(card: Card, watch: Watch, tmp_path: Path) -> None:
    card.accepts("task_1-7", at=1000.0)
    watch.look()
    assert watch.works(tmp_path)
    assert watch.stretches == [Stretch(card.name, "task_1-7", 1000.0)]
    card.finishes("task_1-7", at=1003.5)
    watch.look()
    card.forgets("task_1-7")
    watch.look()
    assert watch.stretches == [Stretch(card.name, "task_1-7", 1000.0, 1003.5)]
    assert watch.stretches[0].task_id == "task_1"
    assert not watch.works(tmp_path)


def test_a_result_that_is_kept_is_seen_once(card: Card, watch: Watch) -> None:
    card.accepts("task_1-7", at=1000.0)
    card.finishes("task_1-7", at=1001.0)
    for _ in range(3):
        watch.look()
    assert len(watch.stretches) == 1


def test_a_run_ends_with_its_engine_and_begins_anew_when_it_is_accepted_again(card: Card, watch: Watch) -> None:
    card.accepts("task_1-7", at=1000.0)
    watch.look()
    card.engine(NOBODY)
    watch.look()
    (first,) = watch.stretches
    assert first.ended is None, "the engine that accepted it still lives, whoever wrote the lock since"
    card.accepts("task_1-7", at=2000.0)
    watch.look()
    watch.look()
    assert [stretch.began for stretch in watch.stretches] == [1000.0, 2000.0]
    assert watch.stretches[0].ended is not None


def test_a_run_of_an_engine_that_is_gone_is_over(card: Card, watch: Watch, tmp_path: Path) -> None:
    card.engine(NOBODY)
    card.accepts("task_1-7", at=1000.0)
    watch.look()
    watch.look()
    assert watch.stretches[0].ended is not None
    assert not watch.works(tmp_path)


def test_the_same_task_on_two_cards_at_one_moment_is_found() -> None:
    first = Stretch("a", "task_1-1", 10.0, 20.0)
    second = Stretch("b", "task_1-4", 19.0, 25.0)
    assert at_once([first, second]) == [(first, second)]
    goes_on = Stretch("a", "task_1-1", 10.0)
    assert at_once([goes_on, second]) == [(goes_on, second)]


@pytest.mark.parametrize(
    "other",
    [
        Stretch("b", "task_1-4", 20.0, 25.0),
        Stretch("a", "task_1-2", 15.0, 25.0),
        Stretch("b", "task_2-4", 15.0, 25.0),
    ],
    ids=["one after the other", "on the same card, whose engine runs one at a time", "another task"],
)
def test_what_is_no_second_run_at_the_same_time(other: Stretch) -> None:
    assert at_once([Stretch("a", "task_1-1", 10.0, 20.0), other]) == []
