"""What this host has done, in a file that survives its agent: SQLite, each write on the disk before it returns.

The journal's intent precedes every submission, and a signed order precedes the intent. So what it doesn't name, or
only as asked for, was never started here, except when an earlier journal was lost: then that is said (`lost_at`)
and absence proves nothing about the time before.
"""

import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path

import structlog

from workflows.contracts.generation import RunOutcome

RETENTION_S = 7 * 24 * 3600
"""Closed runs are remembered so long: a step that is tried again after days still gets the same answer."""
ROWS_MAX = 100_000
"""At most so many closed runs, the oldest go first: about 60 MiB."""
BUSY_S = 2.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

log = structlog.get_logger(__name__)


class JournalUnwritable(Exception):
    """The disk is full or failing. Nothing may be submitted that isn't journaled first."""


class FenceBehind(Exception):
    """The card was ordered under a higher fence before."""

    def __init__(self, known: int) -> None:
        """The fence that is known."""
        super().__init__(f"this host was ordered under the fence {known} of this card before")
        self.known = known


class Step(StrEnum):
    """How far a run is, as far as the journal goes."""

    ASKED = "asked"
    """Its order was asked for, or evidence of it; nothing was started."""
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
        row = self._one("lost_at")
        lost_at = float(str(row[0])) if row else None
        return lost_at if lost_at is not None and time.time() - lost_at < RETENTION_S else None

    def begin(self, entry: Entry) -> tuple[Entry, bool]:
        """The lease's entry as it stands, and whether it was known; one that wasn't is asked for from here on.

        Raises:
            JournalUnwritable: It wasn't known, and nothing was recorded.
        """
        found = self.find(entry.card_uuid, entry.task_id, entry.fence)
        if found is not None:
            return found, True
        # Lost with the power, it says the same as before: nothing was started. The intent waits for the disk.
        self._write(
            entry, ("ask", {"lease_id": entry.lease_id, "run_id": entry.run_id}), survives_power_loss=False
        )
        return self.find(entry.card_uuid, entry.task_id, entry.fence) or entry, False

    def intend(self, entry: Entry, *, deadline_at: float | None = None) -> Entry:
        """Record that a run is about to start under a signed order; the entry as it stands.

        Args:
            entry: The run.
            deadline_at: Unix seconds until when it may go on.

        Raises:
            FenceBehind: An order of a higher fence came before. Nothing was recorded.
            JournalUnwritable: Nothing was recorded.
        """
        # Fences rise and are never taken back, so a look before the write sees all that could forbid it.
        known = self.known_fence(entry.card_uuid)
        if known > entry.fence:
            raise FenceBehind(known)
        values: dict[str, object] = {
            "lease_id": entry.lease_id,
            "run_id": entry.run_id,
            "deadline_at": deadline_at,
        }
        self._write(entry, ("intend", values), ("note_fence", {}))
        return self.find(entry.card_uuid, entry.task_id, entry.fence) or entry

    def known_fence(self, card_uuid: str) -> int:
        """The highest fence of a signed order to start on the card; 0 at first."""
        row = self._one("known_fence", card_uuid=card_uuid)
        return int(str(row[0])) if row else 0

    def submitted(self, entry: Entry, *, run_id: str, boot_id: str) -> None:
        """Record that an engine has the run.

        Raises:
            JournalUnwritable: Nothing was recorded; the engine has it all the same.
        """
        self._write(entry, ("submitted", {"run_id": run_id, "boot_id": boot_id}))

    def crashed(self, entry: Entry) -> int:
        """Record that the engine died under the run; how often that was for its task, on this host.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        self._write(entry, ("crashed", {}))
        row = self._one("crashes_of_task", task_id=entry.task_id)
        return int(str(row[0])) if row else 0

    def close_run(self, entry: Entry, outcome: RunOutcome | None) -> None:
        """Record how the lease's run ended, together with the fence that is settled by it. Idempotent.

        Raises:
            JournalUnwritable: Nothing was recorded.
        """
        text = outcome.model_dump_json() if outcome is not None else None
        self._write(entry, ("close_run", {"outcome": text}), ("settle_card", {}))

    def find(self, card_uuid: str, task_id: str, fence: int) -> Entry | None:
        """The run of one lease. Fences count by card, so the card belongs to its name."""
        return next(iter(self._entries("find", card_uuid=card_uuid, task_id=task_id, fence=fence)), None)

    def of_task(self, card_uuid: str, task_id: str) -> tuple[Entry, ...]:
        """All runs of a task on a card, the newest fence first."""
        return self._entries("of_task", card_uuid=card_uuid, task_id=task_id)

    def open_runs(self, card_uuid: str) -> tuple[Entry, ...]:
        """Runs of a card that aren't closed, the oldest fence first."""
        return self._entries("open_runs", card_uuid=card_uuid)

    def settled_fence(self, card_uuid: str) -> int:
        """The highest fence of the card up to which everything is over; 0 at first."""
        row = self._one("settled_fence", card_uuid=card_uuid)
        first_open, highest = row or (None, 0)
        settled = int(str(highest))
        return settled if first_open is None else min(settled, int(str(first_open)) - 1)

    def _write(
        self, entry: Entry, *steps: tuple[str, dict[str, object]], survives_power_loss: bool = True
    ) -> None:
        common = {
            "card_uuid": entry.card_uuid,
            "task_id": entry.task_id,
            "fence": entry.fence,
            "now": time.time(),
        }
        with self._writing(survives_power_loss=survives_power_loss) as db:
            for name, values in steps:
                db.execute(_queries()[name], common | values)

    def _one(self, name: str, **values: object) -> tuple[object, ...] | None:
        with self._lock:
            row: tuple[object, ...] | None = self._db.execute(_queries()[name], values).fetchone()
        return row

    def _entries(self, name: str, **values: object) -> tuple[Entry, ...]:
        with self._lock:
            rows = self._db.execute(_queries()[name], values).fetchall()
        return tuple(_entry(row) for row in rows)

    @contextmanager
    def _writing(self, *, survives_power_loss: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction. What needn't survive a loss of power survives a kill all the same."""
        with self._lock:
            try:
                if not survives_power_loss:
                    self._db.execute(_queries()["write_soon"])
                try:
                    with self._db:
                        yield self._db
                finally:
                    if not survives_power_loss:
                        self._db.execute(_queries()["write_through"])
            except sqlite3.Error as error:
                raise JournalUnwritable(str(error)) from error

    def _open_sound(self) -> sqlite3.Connection:
        try:
            db = _connect(self.path)
            damage = db.execute(_queries()["check"]).fetchone()[0]
            if damage == "ok":
                if db.execute(_queries()["knows_no_asking"]).fetchone()[0]:
                    _take_old_runs(db)
                    db.execute(_queries()["set_aside"])
                db.executescript(_text("journal_schema.sql"))
                if _take_old_runs(db):
                    db.executescript(_text("journal_schema.sql"))  # the indexes went with the older table
                return db
            db.close()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGE:
                raise  # a full disk or a busy file must not cost a good journal
            damage = str(error)
        self._move_aside(damage)
        db = _connect(self.path)
        db.executescript(_text("journal_schema.sql"))
        with db:
            db.execute(_queries()["note_loss"], {"now": str(time.time())})
        return db

    def _move_aside(self, damage: str) -> None:
        """Keep the damaged file for a person to look at; a new one takes its place."""
        aside = f"{self.path.name}.damaged-{int(time.time())}"
        log.error("journal_damaged", moved_to=aside, damage=damage)
        self.was_damaged = True
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(self.path.with_name(aside + suffix))

    def _prune(self) -> None:
        with self._db:
            self._db.execute(_queries()["prune_old"], {"before": time.time() - RETENTION_S})
            self._db.execute(_queries()["prune_surplus"], {"rows_max": ROWS_MAX})


def _connect(path: Path) -> sqlite3.Connection:
    # One connection under our own lock; the threads that use it take turns.
    db = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        path.chmod(0o600)
        for name in ("use_wal", "write_through", "bound_log"):
            db.execute(_queries()[name])
    except sqlite3.Error:
        db.close()
        raise
    return db


def _take_old_runs(db: sqlite3.Connection) -> bool:
    """Carry the runs of an older file over, all or none; whether there were any."""
    is_older = bool(db.execute(_queries()["has_old_runs"]).fetchone()[0])
    if is_older:
        with db:
            for name in ("take_old_runs", "drop_old_runs"):
                db.execute(_queries()[name])
    return is_older


@cache
def _queries() -> dict[str, str]:
    """The named queries. Read here and not by `infra.db`, whose driver a host has no use for."""
    parts = re.split(r"^-- name: (\w+)$", _text("journal.sql"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text()


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
