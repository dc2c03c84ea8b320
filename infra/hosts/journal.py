"""What this host has done, in a file that survives its agent: SQLite, each write on the disk before it returns.

The journal's intent precedes every submission, so what it doesn't name was never started here, except when an
earlier journal was lost: then that is said (`lost_at`) and absence proves nothing about the time before.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

import structlog

from workflows.contracts.generation import RunOutcome

RETENTION_S = 7 * 24 * 3600
"""Closed runs are remembered so long: a step that is tried again after days still gets the same answer."""
ROWS_MAX = 100_000
"""At most so many closed runs, the oldest go first: about 60 MiB."""
BUSY_S = 2.0
COLUMNS = "task_id, fence, card_uuid, lease_id, run_id, state, boot_id, crashes, deadline_at, outcome"

log = structlog.get_logger(__name__)


class JournalUnwritable(Exception):
    """The disk is full or failing. Nothing may be submitted that isn't journaled first."""


class Step(StrEnum):
    """How far a run is, as far as the journal goes."""

    INTENT = "intent"
    """About to be started; may or may not have reached the engine."""
    SUBMITTED = "submitted"
    """The engine has it, or had."""
    CLOSED = "closed"
    """Over, and its outcome is recorded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One lease's run.

    Attributes:
        task_id: The generation.
        fence: Of the lease.
        card_uuid: Where.
        lease_id: The lease.
        run_id: The engine's name for the run.
        step: How far it is.
        boot_id: Of the engine process that accepted it.
        crashes: Engine deaths under it.
        deadline_at: Unix seconds after which it is stopped; None before its order was read.
        outcome: The answer, once closed; None when it was closed because nobody waits for it.
    """

    task_id: str
    fence: int
    card_uuid: str
    lease_id: str
    run_id: str
    step: Step
    boot_id: str = ""
    crashes: int = 0
    deadline_at: float | None = None
    outcome: RunOutcome | None = None


class Journal:
    """The journal of one host. Safe to use from threads; calls block for a disk write (about 1 ms).

    Attributes:
        path: The file.
        was_damaged: True when this opening moved a damaged journal aside.
    """

    def __init__(self, path: Path) -> None:
        """Open it, moving a damaged one aside.

        Raises:
            JournalUnwritable: The file can't be made.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self.was_damaged = False
        try:
            self._db = self._open_sound()
            self._prune()
        except sqlite3.Error as error:
            raise JournalUnwritable(str(error)) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @property
    def lost_at(self) -> float | None:
        """Unix seconds when a damaged journal was moved aside; None when none was within the retention."""
        with self._lock:
            row = self._db.execute("SELECT value FROM note WHERE name = 'lost_at'").fetchone()
        lost_at = float(row[0]) if row else None
        return lost_at if lost_at is not None and time.time() - lost_at < RETENTION_S else None

    def intend(self, entry: Entry) -> Entry:
        """Record that a run is about to start; the entry as it stands when the lease is known already.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        with self._writing() as db:
            db.execute(
                "INSERT INTO run (task_id, fence, card_uuid, lease_id, run_id, state, changed_at)"
                " VALUES (?, ?, ?, ?, ?, 'intent', ?) ON CONFLICT DO NOTHING",
                (entry.task_id, entry.fence, entry.card_uuid, entry.lease_id, entry.run_id, time.time()),
            )
        found = self.find(entry.task_id, entry.fence)
        assert found is not None  # noqa: S101 - the row was inserted or was there
        return found

    def set_deadline(self, entry: Entry, deadline_at: float) -> None:
        """Record until when the run may go on.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        self._update(entry, "deadline_at = ?", deadline_at)

    def submitted(self, entry: Entry, *, run_id: str, boot_id: str) -> None:
        """Record that an engine has the run.

        Raises:
            JournalUnwritable: Nothing was recorded; the engine has it all the same.
        """
        self._update(entry, "state = 'submitted', run_id = ?, boot_id = ?", run_id, boot_id)

    def crashed(self, entry: Entry) -> int:
        """Record that the engine died under the run; how often that was for its task, on this host.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        self._update(entry, "crashes = crashes + 1")
        with self._lock:
            row = self._db.execute("SELECT sum(crashes) FROM run WHERE task_id = ?", (entry.task_id,)).fetchone()
        return int(row[0] or 0)

    def close_run(self, entry: Entry, outcome: RunOutcome | None) -> None:
        """Record how the lease's run ended, together with the fence that is settled by it. Idempotent.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        text = outcome.model_dump_json() if outcome is not None else None
        with self._writing() as db:
            db.execute(
                "UPDATE run SET state = 'closed', outcome = ?, changed_at = ?"
                " WHERE task_id = ? AND fence = ? AND state <> 'closed'",
                (text, time.time(), entry.task_id, entry.fence),
            )
            db.execute(
                "INSERT INTO card (card_uuid, settled_fence) VALUES (?, ?) ON CONFLICT (card_uuid)"
                " DO UPDATE SET settled_fence = max(settled_fence, excluded.settled_fence)",
                (entry.card_uuid, entry.fence),
            )

    def find(self, task_id: str, fence: int) -> Entry | None:
        """The run of one lease."""
        return next(iter(self._select("task_id = ? AND fence = ?", task_id, fence)), None)

    def of_task(self, task_id: str) -> tuple[Entry, ...]:
        """All runs of a task on this host, the newest fence first."""
        return self._select("task_id = ? ORDER BY fence DESC", task_id)

    def open_runs(self, card_uuid: str) -> tuple[Entry, ...]:
        """Runs of a card that aren't closed, the oldest fence first."""
        return self._select("card_uuid = ? AND state <> 'closed' ORDER BY fence", card_uuid)

    def settled_fence(self, card_uuid: str) -> int:
        """The highest fence of the card up to which everything is over; 0 at first."""
        with self._lock:
            first_open, highest = self._db.execute(
                "SELECT (SELECT min(fence) FROM run WHERE card_uuid = :card AND state <> 'closed'),"
                " coalesce((SELECT settled_fence FROM card WHERE card_uuid = :card), 0)",
                {"card": card_uuid},
            ).fetchone()
        return int(highest) if first_open is None else min(int(highest), int(first_open) - 1)

    def _update(self, entry: Entry, assignments: str, *values: object) -> None:
        with self._writing() as db:
            db.execute(
                f"UPDATE run SET {assignments}, changed_at = ? WHERE task_id = ? AND fence = ?",  # noqa: S608 - ours
                (*values, time.time(), entry.task_id, entry.fence),
            )

    def _select(self, where: str, *values: object) -> tuple[Entry, ...]:
        with self._lock:
            rows = self._db.execute(
                f"SELECT {COLUMNS} FROM run WHERE {where}",  # noqa: S608 - the conditions are this module's own
                values,
            ).fetchall()
        return tuple(_entry(row) for row in rows)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                with self._db:
                    yield self._db
            except sqlite3.Error as error:
                raise JournalUnwritable(str(error)) from error

    def _open_sound(self) -> sqlite3.Connection:
        existed = self.path.exists()
        try:
            db = _connect(self.path)
            damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage == "ok":
                db.executescript(_schema())
                return db
            db.close()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not existed:
                raise  # a disk that takes no file, not a damaged one
            damage = str(error)
        aside = self.path.with_name(f"{self.path.name}.damaged-{int(time.time())}")
        self.was_damaged = True
        log.error("journal_damaged", moved_to=aside.name, damage=damage)
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        db = _connect(self.path)
        db.executescript(_schema())
        with db:
            db.execute("INSERT OR REPLACE INTO note VALUES ('lost_at', ?)", (str(time.time()),))
        return db

    def _prune(self) -> None:
        with self._db:
            self._db.execute(
                "DELETE FROM run WHERE state = 'closed' AND changed_at < ?", (time.time() - RETENTION_S,)
            )
            self._db.execute(
                "DELETE FROM run WHERE (task_id, fence) IN (SELECT task_id, fence FROM run WHERE state = 'closed'"
                " ORDER BY changed_at DESC LIMIT -1 OFFSET ?)",
                (ROWS_MAX,),
            )


def _connect(path: Path) -> sqlite3.Connection:
    # One connection under our own lock; the threads that use it take turns.
    db = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    path.chmod(0o600)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")  # with NORMAL the last commits of a WAL go with a power cut
    db.execute("PRAGMA journal_size_limit = 1048576")
    return db


def _schema() -> str:
    return (resources.files(__package__) / "journal.sql").read_text()


def _entry(row: tuple[str, int, str, str, str, str, str, int, float | None, str | None]) -> Entry:
    *plain, state, boot_id, crashes, deadline_at, outcome = row
    task_id, fence, card_uuid, lease_id, run_id = plain
    return Entry(
        task_id=str(task_id),
        fence=int(str(fence)),
        card_uuid=str(card_uuid),
        lease_id=str(lease_id),
        run_id=str(run_id),
        step=Step(str(state)),
        boot_id=str(boot_id),
        crashes=int(str(crashes)),
        deadline_at=deadline_at,
        outcome=RunOutcome.model_validate_json(outcome) if outcome else None,
    )
