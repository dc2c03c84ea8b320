"""What really ran where and when, from the engines' own records, which are looked at from outside all the time.

The records say when a run was accepted and when its result was written. An engine that was killed writes nothing
any more: its run ended when its process was gone.
"""

import contextlib
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

import psutil

from infra.engines.native.identity import LOCK_NAME

LOOK_EACH_S = 0.02
"""A run stays in its records until its result was uploaded and journaled, which takes longer."""


@dataclass(slots=True)
class Stretch:
    """One stretch of work on one run, by one engine process.

    Attributes:
        card: Whose engine it was.
        run_id: The engine's name for the run.
        began: Unix seconds.
        ended: Unix seconds; None while it goes on.
    """

    card: str
    run_id: str
    began: float
    ended: float | None = None

    @property
    def task_id(self) -> str:
        """The generation."""
        return self.run_id.rpartition("-")[0]


def at_once(stretches: Iterable[Stretch]) -> list[tuple[Stretch, Stretch]]:
    """Pairs of stretches of one task on different cards that have a moment in common."""
    by_task = defaultdict(list)
    for stretch in stretches:
        by_task[stretch.task_id].append(stretch)
    return [
        (one, other)
        for of_task in by_task.values()
        for one, other in combinations(of_task, 2)
        if one.card != other.card and _end(one) > other.began and _end(other) > one.began
    ]


def _end(stretch: Stretch) -> float:
    return float("inf") if stretch.ended is None else stretch.ended


class _CardWatch:
    """Looks at one engine's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = folder / "runs"
        self._open: dict[str, tuple[Stretch, int, int | None]] = {}  # with the record's mtime and the engine's pid
        self._seen: dict[str, int] = {}
        self.stretches: list[Stretch] = []

    @property
    def works(self) -> bool:
        return bool(self._open)

    def look(self, now: float) -> None:
        try:
            names = set(os.listdir(self._runs))  # noqa: PTH208 - names are all that is needed, fifty times a second
        except FileNotFoundError:
            names = set()
        for name in list(self._open):
            self._look_again(name, now, is_there=name in names)
        for name in names - self._open.keys():
            self._look_first(name)

    def _look_first(self, name: str) -> None:
        """Take a run that wasn't known, or was accepted anew under the same name."""
        record = self._runs / name / "run.json"
        try:
            changed = record.stat().st_mtime_ns
            if self._seen.get(name) == changed:
                return
            began = float(json.loads(record.read_bytes())["accepted_at"])
        except FileNotFoundError:
            return  # not accepted yet, or forgotten just now
        self._seen[name] = changed
        stretch = Stretch(self._folder.name, name, began)
        self.stretches.append(stretch)
        self._open[name] = (stretch, changed, _engine(self._folder))

    def _look_again(self, name: str, now: float, *, is_there: bool) -> None:
        stretch, accepted, pid = self._open[name]
        try:
            if not is_there or (self._runs / name / "run.json").stat().st_mtime_ns != accepted:
                stretch.ended = now
            elif pid is None:
                self._open[name] = (stretch, accepted, _engine(self._folder))
            elif not _lives(pid):
                stretch.ended = now
            with contextlib.suppress(FileNotFoundError):
                written = (self._runs / name / "result.json").stat().st_mtime
                if written >= stretch.began:
                    stretch.ended = written
        except FileNotFoundError:
            stretch.ended = now
        if stretch.ended is not None:
            del self._open[name]


class Watch:
    """Looks at the engines of several homes from a thread of its own, from `with` to its end."""

    def __init__(self, homes: Sequence[Path]) -> None:
        """Look at nothing yet."""
        self._homes = homes
        self._cards: dict[Path, _CardWatch] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ending.set()
        self._thread.join()

    @property
    def stretches(self) -> list[Stretch]:
        """All that was seen so far."""
        with self._lock:
            return [stretch for card in self._cards.values() for stretch in card.stretches]

    def works(self, home: Path) -> bool:
        """Whether an engine of this home is at work."""
        with self._lock:
            return any(card.works for folder, card in self._cards.items() if folder.is_relative_to(home))

    def look(self) -> None:
        """Look once at everything."""
        with self._lock:
            for home in self._homes:
                for folder in _folders(home / "engines"):
                    if folder not in self._cards:
                        self._cards[folder] = _CardWatch(folder)
            for card in self._cards.values():
                card.look(time.time())

    def _keep_looking(self) -> None:
        while not self._ending.wait(LOOK_EACH_S):
            self.look()


def _folders(path: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(path)]
    except FileNotFoundError:
        return []


def _engine(folder: Path) -> int | None:
    """The engine that wrote its pid last. Its lock isn't touched: an engine that starts just now would miss it."""
    try:
        text = (folder / LOCK_NAME).read_bytes().strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
