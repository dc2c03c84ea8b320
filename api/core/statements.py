"""A statement's lines as clients read them: JSON, CSV, and the cursor between pages."""

import base64
import csv
import io
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from api.errors import refuse
from infra.statements import Line, Position
from workflows.contracts.failures import Code

CURSOR_CHARS_MAX = 400
COLUMNS = (
    "id", "at", "kind", "task_id", "operation_id", "model", "credits", "held", "posted_after", "held_after",
    "available_after", "reason", "made_by", "made_by_name", "expires_at",
)  # fmt: skip
"""Of a line in either form. A column is only ever added, at the end."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes a cell for a formula by."""


def shown(line: Line) -> dict[str, Any]:
    """A line as JSON; ids are text, since they are names and no amounts."""
    found = line.model_dump(mode="json") | {
        "id": str(line.id),
        "model": line.model_id,
        "available_after": line.available_after,
    }
    return {name: found[name] for name in COLUMNS}


def csv_head() -> str:
    """The line of names."""
    return _csv([COLUMNS])


def csv_lines(lines: Iterable[Line]) -> str:
    """Lines as CSV (RFC 4180)."""
    return _csv([[_cell(value) for value in shown(line).values()] for line in lines])


def cursor_of(position: Position) -> str:
    """Where the next page begins. Opaque to clients; whoever forges one misleads himself alone."""
    return base64.urlsafe_b64encode(position.model_dump_json().encode()).decode().rstrip("=")


def position_of(cursor: str) -> Position:
    """The place that a cursor names.

    Raises:
        ApiError: 400 for what we never gave out.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = Position.model_validate_json(raw, strict=True)
        if not all(0 <= value < 2**63 for value in (position.last, position.below)):
            raise ValueError("no id")  # noqa: TRY301 - refused below like what isn't a cursor at all
    except (ValueError, ValidationError) as error:
        message = "This `cursor` is none of ours; send `next_cursor` as it came."
        raise refuse(Code.INVALID_REQUEST, message, param="cursor") from error
    return position


def prefers_csv(accept: str) -> bool:
    """Whether the header names CSV, and JSON not before it."""
    kinds = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind == "text/csv" for kind in kinds if kind in {"text/csv", "application/json"}), False)


def _cell(value: object) -> str:
    """Numbers as they are; text that a spreadsheet would run stands behind an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value)


def _csv(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
