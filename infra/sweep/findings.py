"""What a step found, collected while it looks and recorded at its end."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from infra import metrics
from infra.db import Database, Reader, load
from workflows.contracts.message import Message
from workflows.contracts.sweep import FINDINGS_SHOWN_MAX, Finding, Kind, SweepOrder, SweepPart

_QUERIES = load("infra.sweep")
BATCH = 200
"""Rows of one look."""
log = structlog.get_logger(__name__)

ACTS = frozenset(
    (
        Kind.HOLD_WITHOUT_OPEN_WORKFLOW,
        Kind.ROW_WITHOUT_WORKFLOW,
        Kind.LATE_LOOK_WITHOUT_WORKFLOW,
        Kind.WORKFLOW_WITHOUT_ROW,
        Kind.LOT_DUE,
    )
)
"""Repairs that are kept with the operators' acts; the others are housekeeping."""


@dataclass(slots=True)
class Notes:
    """One step's notebook.

    Attributes:
        step: Its name.
        kinds: What it looks for; what of these was found before and isn't there now is gone.
        order: How the sweep was asked for.
        looked_at: Rows or workflows so far.
    """

    step: str
    kinds: tuple[Kind, ...]
    order: SweepOrder
    looked_at: int = 0
    _found: list[Finding] = field(default_factory=list)

    def note(self, kind: Kind, subject: str, detail: str, remedy: str, *, repaired: bool = False) -> None:
        """Keep a finding."""
        self._found.append(Finding(kind=kind, subject=subject, detail=detail, remedy=remedy, repaired=repaired))

    async def close(self, database: Database) -> SweepPart:
        """Record everything, unless it was a dry run, and answer."""
        if not self.order.dry_run:
            async with database.single_statement() as tx:
                await tx.run(
                    _QUERIES["record"],
                    step=self.step,
                    kinds=list(self.kinds),
                    found=json.dumps([_as_row(finding) for finding in self._found]),
                    looked_at=self.looked_at,
                    actor=self.order.actor,
                )
            for finding in self._found:
                metrics.count("sweep_findings", kind=finding.kind, repaired=str(finding.repaired).lower())
                log.warning("sweep found", **finding.model_dump(mode="json"))
        shown = self._found[:FINDINGS_SHOWN_MAX]
        return SweepPart(looked_at=self.looked_at, findings=tuple(shown), more=len(self._found) - len(shown))


class OpenCount(Message):
    """How much of one kind is found and not mended.

    Attributes:
        kind: As in `Kind`.
        count: How many.
        oldest_at: When the oldest was found; None without any.
    """

    kind: Kind
    count: int
    oldest_at: datetime | None


async def open_counts(reader: Reader) -> tuple[OpenCount, ...]:
    """Of each kind, what is open now."""
    found = {row["kind"]: row for row in await reader.all(_QUERIES["open_counts"])}
    return tuple(
        OpenCount(
            kind=kind,
            count=found[kind]["count"] if kind in found else 0,
            oldest_at=found[kind]["oldest_at"] if kind in found else None,
        )
        for kind in Kind
    )


def batches(ids: Iterable[str]) -> Iterable[list[str]]:
    """The ids, `BATCH` at a time."""
    whole = list(ids)
    for start in range(0, len(whole), BATCH):
        yield whole[start : start + BATCH]


def _as_row(finding: Finding) -> dict[str, object]:
    return finding.model_dump(mode="json") | {"act": finding.kind in ACTS}
