"""Databases for lives that are thrown away."""

from collections.abc import Callable
from typing import NamedTuple

from infra.db import Database
from workers.bench.money.ground import Loop

POOL_MAX = 4
"""As many steps at once as a rule takes."""


class Place(NamedTuple):
    """A database for one life.

    Attributes:
        name: Of the database.
        database: For steps.
        watch: Of one connection, which knows the plan of the look at everything.
    """

    name: str
    database: Database
    watch: Database


class Scratch:
    """Makes databases, and drops them."""

    def __init__(
        self,
        loop: Loop,
        *,
        create: Callable[[], str],
        conninfo: Callable[[str], str],
        drop: Callable[[str], None],
    ) -> None:
        """`create` makes a migrated and prepared database and answers its name."""
        self.loop = loop
        self._create = create
        self._conninfo = conninfo
        self._drop = drop

    def enter(self) -> Place:
        """A new database, connected."""
        name = self._create()
        database = Database(self._conninfo(name), application="check", pool_max=POOL_MAX)
        watch = Database(self._conninfo(name), application="watch", pool_max=1)
        self.loop.run(database.open())
        self.loop.run(watch.open())
        return Place(name, database, watch)

    def leave(self, place: Place) -> None:
        """Drop it."""
        self.loop.run(place.database.close())
        self.loop.run(place.watch.close())
        self._drop(place.name)
