"""The journal remembers what was started, through crashes, full disks and damage."""

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from infra.hosts import journal as journal_module
from infra.hosts.journal import Entry, FenceBehind, Journal, JournalUnwritable, Step
from workflows.contracts.generation import RunOutcome
from workflows.contracts.states import RunVerdict

CARD = "cpu-test-0"
DONE = RunOutcome(verdict=RunVerdict.FINISHED, engine_s=1.5, evidence="done")


def lease(fence: int, *, task: str = "gen_a") -> Entry:
    """A lease of the card, about to run."""
    return Entry(task, fence, CARD, f"lease-{fence}", f"{task}-{fence}", Step.ASKED)


def fill(journal: Journal) -> None:
    """Write more than the little that is left."""
    for fence in range(2, 500):
        journal.intend(lease(fence))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "host" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(path)
    yield journal
    journal.close()


def test_a_run_goes_from_intent_to_closed(journal: Journal) -> None:
    asked, is_known = journal.begin(lease(3))
    assert (asked.step, is_known) == (Step.ASKED, False)
    entry = journal.intend(asked, deadline_at=12.5)
    assert entry.step is Step.INTENT
    journal.submitted(entry, run_id="other", boot_id="boot")
    found = journal.find(CARD, "gen_a", 3)
    assert found is not None
    assert (found.step, found.run_id, found.boot_id, found.deadline_at) == (Step.SUBMITTED, "other", "boot", 12.5)
    journal.close_run(entry, DONE)
    closed = journal.find(CARD, "gen_a", 3)
    assert closed is not None
    assert (closed.step, closed.outcome) == (Step.CLOSED, DONE)


def test_the_first_word_about_a_lease_stands(journal: Journal) -> None:
    entry = journal.intend(lease(3))
    journal.close_run(entry, DONE)
    journal.close_run(entry, RunOutcome(verdict=RunVerdict.FAILED))
    journal.submitted(entry, run_id="x", boot_id="y")
    assert journal.intend(lease(3)).outcome == DONE


def test_a_card_is_settled_up_to_its_first_open_fence(journal: Journal) -> None:
    assert journal.settled_fence(CARD) == 0
    first, second = journal.intend(lease(4)), journal.intend(lease(7, task="gen_b"))
    journal.close_run(second, DONE)
    assert journal.settled_fence(CARD) == 3
    journal.close_run(first, None)
    assert journal.settled_fence(CARD) == 7
    assert journal.settled_fence("another card") == 0


def test_open_runs_are_what_a_new_agent_has_to_look_after(journal: Journal, path: Path) -> None:
    journal.intend(lease(5))
    journal.close_run(journal.intend(lease(6, task="gen_b")), DONE)
    journal.close()
    again = Journal(path)
    assert [entry.fence for entry in again.open_runs(CARD)] == [5]
    assert [entry.fence for entry in again.of_task(CARD, "gen_b")] == [6]
    again.close()


def test_kills_are_counted_over_all_leases_of_a_task(journal: Journal) -> None:
    first, second = journal.intend(lease(1)), journal.intend(lease(2))
    assert [journal.crashed(first), journal.crashed(second), journal.crashed(second)] == [1, 2, 3]
    assert journal.crashed(journal.intend(lease(3, task="gen_b"))) == 1


def test_one_fence_of_one_task_on_two_cards_are_two_runs(journal: Journal) -> None:
    """Fences count by card: the second card must not answer with what the first one did."""
    other = replace(lease(3), card_uuid="cpu-test-1", run_id="there")
    journal.close_run(journal.intend(lease(3)), DONE)
    assert journal.begin(other) == (other, False)
    assert journal.open_runs("cpu-test-1") == (other,)
    assert [entry.run_id for entry in journal.of_task("cpu-test-1", "gen_a")] == ["there"]
    assert (journal.settled_fence(CARD), journal.settled_fence("cpu-test-1")) == (3, 0)
    first = journal.find(CARD, "gen_a", 3)
    assert first is not None
    assert (first.step, first.outcome) == (Step.CLOSED, DONE)


def test_runs_of_the_time_of_one_card_are_carried_over(path: Path) -> None:
    journal = Journal(path)
    journal.close_run(journal.intend(lease(3)), DONE)
    journal.intend(lease(4))
    journal._db.executescript("CREATE TABLE run AS SELECT * FROM card_run; DELETE FROM card_run;")
    journal.close()
    for _ in range(2):
        again = Journal(path)
        done = again.find(CARD, "gen_a", 3)
        assert done is not None
        assert done.outcome == DONE
        assert [entry.fence for entry in again.open_runs(CARD)] == [4]
        again.close()


def test_an_intent_is_on_the_disk_when_it_is_said_to_be(path: Path) -> None:
    program = (
        "import os, signal, pathlib, sys\n"
        "from infra.hosts.journal import *\n"
        "j = Journal(pathlib.Path(sys.argv[1]))\n"
        "j.intend(Entry('gen_a', 9, 'cpu-test-0', 'l', 'r', Step.INTENT))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=60)
    journal = Journal(path)
    assert journal.find(CARD, "gen_a", 9) is not None
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert journal._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    journal.close()


@pytest.mark.parametrize("damage", ["text", "page"])
def test_a_damaged_journal_is_moved_aside_and_says_so(path: Path, damage: str) -> None:
    journal = Journal(path)
    for fence in range(200):
        journal.intend(lease(fence))
    journal.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(0 if damage == "text" else size // 2)
        file.write(b"no database at all " * 300)
    again = Journal(path)
    assert again.was_damaged
    assert again.lost_at is not None
    assert again.find(CARD, "gen_a", 1) is None
    assert len(list(path.parent.glob("journal.db.damaged-*"))) >= 1
    again.intend(lease(1))
    again.close()
    third = Journal(path)
    assert not third.was_damaged
    assert third.lost_at is not None
    third.close()


def test_a_full_disk_refuses_an_intent_and_keeps_what_was_there(path: Path) -> None:
    journal = Journal(path)
    journal.intend(lease(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = path.with_name("journal.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, limits[1]))
    try:
        with pytest.raises(JournalUnwritable):
            fill(journal)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.find(CARD, "gen_a", 1) is not None
    journal.intend(lease(600))
    journal.close()


def test_a_journal_that_cant_be_opened_is_not_taken_for_a_damaged_one(path: Path) -> None:
    first = Journal(path)
    first.intend(lease(1))
    first.close()
    obstacle = path.with_name("journal.db-wal")
    obstacle.mkdir()
    with pytest.raises(JournalUnwritable):
        Journal(path)
    obstacle.rmdir()
    again = Journal(path)
    assert again.find(CARD, "gen_a", 1) is not None
    assert again.lost_at is None
    again.close()


def test_old_and_surplus_runs_are_forgotten_but_never_open_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    journal.intend(lease(1))
    for fence in range(2, 8):
        journal.close_run(journal.intend(lease(fence)), DONE)
    journal._db.execute("UPDATE card_run SET changed_at = 0 WHERE fence IN (1, 2)")
    journal._db.commit()
    journal.close()
    monkeypatch.setattr(journal_module, "ROWS_MAX", 3)
    again = Journal(path)
    assert [entry.fence for entry in again.of_task(CARD, "gen_a")] == [7, 6, 5, 1]
    assert again.settled_fence(CARD) == 0
    again.close()


def test_a_lower_fence_is_never_intended_again_even_when_its_rows_are_gone(journal: Journal, path: Path) -> None:
    journal.close_run(journal.intend(lease(7)), DONE)
    journal._db.execute("DELETE FROM card_run")
    journal._db.commit()
    again = Journal(path)
    low, _ = again.begin(lease(6, task="gen_b"))
    with pytest.raises(FenceBehind) as behind:
        again.intend(low)
    assert behind.value.known == again.known_fence(CARD) == 7
    (still,) = again.open_runs(CARD)
    assert still.step is Step.ASKED
    again.intend(lease(7, task="gen_b"))
    assert again.intend(replace(lease(2), card_uuid="cpu-test-1")).step is Step.INTENT, "fences count by card"
    again.close()


def test_what_was_only_asked_for_raises_no_fence(journal: Journal) -> None:
    """Nobody signed it: a made-up lease of a high fence must not shut the card for those that are real."""
    entry, _ = journal.begin(lease(10**9))
    journal.close_run(entry, RunOutcome(verdict=RunVerdict.FAILED))
    assert journal.known_fence(CARD) == 0
    assert journal.intend(lease(3)).step is Step.INTENT
    assert journal.settled_fence(CARD) == 2, "the open run keeps its card, whatever was closed"


def test_an_intent_is_not_taken_back_by_asking_again(journal: Journal) -> None:
    entry = journal.intend(lease(3), deadline_at=5.0)
    again, is_known = journal.begin(lease(3))
    assert (again.step, is_known) == (Step.INTENT, True)
    journal.submitted(entry, run_id="r", boot_id="b")
    assert journal.intend(lease(3), deadline_at=9.0).step is Step.SUBMITTED
    found = journal.find(CARD, "gen_a", 3)
    assert found is not None
    assert found.deadline_at == 5.0, "a deadline that was given stands"


def test_runs_of_the_time_before_orders_were_signed_are_carried_over(path: Path) -> None:
    journal = Journal(path)
    journal.close_run(journal.intend(lease(3)), DONE)
    journal.intend(lease(4))
    (schema,) = journal._db.execute("SELECT sql FROM sqlite_schema WHERE name = 'card_run'").fetchone()
    older = schema.replace("'asked', ", "").replace("card_run", "older")
    journal._db.executescript(
        f"{older}; INSERT INTO older SELECT * FROM card_run; DROP TABLE card_run; DROP TABLE ordered;"
        "ALTER TABLE older RENAME TO card_run;"
        "CREATE INDEX card_run_by_state ON card_run (card_uuid, state);"
    )
    journal.close()
    for fence in (5, 6):
        again = Journal(path)
        done = again.find(CARD, "gen_a", 3)
        assert done is not None
        assert done.outcome == DONE
        assert again.open_runs(CARD)[0].step is Step.INTENT, "it may have been started"
        assert again.begin(lease(fence))[0].step is Step.ASKED
        indexes = again._db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        assert indexes.fetchone() == (2,)
        again.close()


def test_only_what_may_start_a_run_waits_for_the_disk(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost with the power, an asking says what was so before; an intent must not be lost."""
    levels: list[int] = []
    real = Journal._writing

    @contextmanager
    def seen(self: Journal, **how: bool) -> Iterator[sqlite3.Connection]:
        with real(self, **how) as db:
            yield db
            levels.append(int(db.execute("PRAGMA synchronous").fetchone()[0]))

    monkeypatch.setattr(Journal, "_writing", seen)
    entry, _ = journal.begin(lease(1))
    journal.intend(entry)
    assert levels == [1, 2], "NORMAL for the asking, FULL for the intent"
