"""SQL is text that people read: named, commented queries in `.sql` files beside the modules that use them.

A file looks like this; a query runs from its name to the next one, and its parameters are `%(name)s`::

    -- name: balance
    -- What an account can spend, holds, and spent.
    select …
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from typing import LiteralString

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement of a `.sql` file.

    Attributes:
        name: As the file gives it.
        text: The statement with its comment. Files ship with the code, so this counts as literal.
    """

    name: str
    text: LiteralString

    @property
    def comment(self) -> str:
        """The sentences right under the name; empty without any."""
        lines = takewhile(lambda line: line.startswith("--"), self.text.splitlines())
        return " ".join(line.removeprefix("--").strip() for line in lines)


class Queries:
    """The queries of one file, by name."""

    def __init__(self, source: str, by_name: dict[str, Query]) -> None:
        """Hold what `load` read from `source`."""
        self._source = source
        self._by_name = by_name

    def __getitem__(self, name: str) -> Query:
        """The query of that name; KeyError names the file."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"{self._source} has no query {name!r}") from None

    def __iter__(self) -> Iterator[Query]:
        """All queries, as they stand in the file."""
        return iter(self._by_name.values())


def load(package: str, file: str = "queries.sql") -> Queries:
    """Read the named queries of `file` in `package` (`__package__` of the caller).

    Raises:
        ValueError: two queries have one name, or text stands before the first name.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    source = f"{package}/{file}"
    head, *rest = _NAME.split(text)
    if any(line and not line.startswith("--") for line in head.splitlines()):
        raise ValueError(f"{source}: a statement stands before the first name")
    by_name: dict[str, Query] = {}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name in by_name:
            raise ValueError(f"{source}: two queries are named {name!r}")
        by_name[name] = Query(name, body.strip().removesuffix(";"))
    return Queries(source, by_name)
