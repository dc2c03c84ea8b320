"""The statement: what moved at an account, line by line, the newest first, each with what was there after it."""

from datetime import datetime
from enum import StrEnum

from infra.db import Reader, load
from infra.db.errors import NoSuchRow
from workflows.contracts.message import Message

_QUERIES = load(__package__)


class Kind(StrEnum):
    """What a line is about."""

    HOLD = "hold"
    """A generation was admitted, and its price is held."""
    SETTLED = "settled"
    """A generation delivered: it was paid, and the rest of its hold returned."""
    RELEASED = "released"
    """A generation ended without being paid; its hold returned."""
    GRANT = "grant"
    TOP_UP = "top_up"
    PROMOTION = "promotion"
    EXPIRY = "expiry"
    """Credits with a date were lost on it."""
    ADJUSTMENT = "adjustment"
    """An operator corrected something, with the reason."""


_KINDS = {"pending": Kind.HOLD, "post": Kind.SETTLED, "void": Kind.RELEASED}


class Span(Message):
    """A span of time.

    Attributes:
        since: Its begin, included; None means from the first line on.
        until: Its end, left out; None means until now.
    """

    since: datetime | None = None
    until: datetime | None = None


class Position(Message):
    """Where a statement goes on: it holds all that the next page needs, so new lines can't move it.

    Attributes:
        last: The newest transfer of what is left.
        below: The newest transfer that is too old.
        posted: What the account had right after `last`.
        held: What was held then.
    """

    last: int
    below: int
    posted: int
    held: int


class Line(Message):
    """One line.

    Attributes:
        id: Rises with time within an account.
        at: When.
        kind: What it is about.
        task_id: The generation, if it is about one.
        operation_id: Of that generation.
        model_id: Of that generation.
        credits: By how much it changed what the account has; the sum of all lines is that.
        held: By how much it changed what is held.
        posted_after: What the account had after it.
        held_after: What was held after it.
        reason: Why, for what isn't a generation's own.
        made_by: Who created the generation: a member's id, or `key:` and a key's.
        made_by_name: The member's address or the key's name.
        expires_at: When what was given is lost, unless it is held or spent.
    """

    id: int
    at: datetime
    kind: Kind
    task_id: str | None
    operation_id: str | None
    model_id: str | None
    credits: int
    held: int
    posted_after: int
    held_after: int
    reason: str
    made_by: str | None
    made_by_name: str | None
    expires_at: datetime | None

    @property
    def available_after(self) -> int:
        """What could be held after it."""
        return self.posted_after - self.held_after


class Page(Message):
    """Some lines, and where it goes on; None at the end."""

    lines: tuple[Line, ...]
    further: Position | None


async def page(reader: Reader, account_id: str, *, start: Span | Position, limit: int) -> Page:
    """At most `limit` lines of an account, the newest first.

    Pages that follow one another have every line once, whatever is booked meanwhile: lines are ordered by ids
    that rise in the order of commits, so what is new stands before the first page.

    Raises:
        NoSuchRow: no such account that pays.
    """
    position = await _begin(reader, account_id, start) if isinstance(start, Span) else start
    if position is None:
        return Page(lines=(), further=None)
    rows = await reader.all(
        _QUERIES["lines"], account_id=account_id, last=position.last, below=position.below, limit=limit + 1
    )
    posted, held = position.posted, position.held
    lines = []
    for row in rows[:limit]:
        kind = _KINDS.get(row["kind"]) or Kind(row["kind"])
        lines.append(Line.model_validate({**row, "kind": kind, "posted_after": posted, "held_after": held}))
        posted, held = posted - row["credits"], held - row["held"]
    if len(rows) <= limit:
        return Page(lines=tuple(lines), further=None)
    further = Position(last=rows[limit]["id"], below=position.below, posted=posted, held=held)
    return Page(lines=tuple(lines), further=further)


async def _begin(reader: Reader, account_id: str, span: Span) -> Position | None:
    bounds = await reader.one(_QUERIES["bounds"], account_id=account_id, since=span.since, until=span.until)
    last = bounds["last"] if bounds else None
    figures = await reader.one(_QUERIES["figures_after"], account_id=account_id, last=last or 0)
    if figures is None:
        raise NoSuchRow(f"no account {account_id} that pays")
    if bounds is None or last is None or last <= bounds["below"]:
        return None
    return Position(last=last, below=bounds["below"], posted=figures["posted"], held=figures["held"])
