"""What people and processes read of generations."""

from datetime import timedelta

from infra.db import Reader, load
from infra.generations.records import ArtifactRecord, GenerationRecord, ModelReadiness
from workflows.contracts import timeouts

_QUERIES = load(__package__)

SWEEP_MAX = 1000
"""Open generations that one sweep looks at, oldest first; the next sweep sees the rest."""


async def find(reader: Reader, *, account_id: str, task_id: str) -> GenerationRecord | None:
    """A generation of this account. One that is absent and one that is another's take the same look-up."""
    row = await reader.one(_QUERIES["find"], account_id=account_id, task_id=task_id)
    if row is None:
        return None
    standing = {"status": row["status"], "credit_status": row["credit_status"]}
    artifacts = [{**kept, "index": kept["idx"], **standing} for kept in row.pop("artifacts")]
    return GenerationRecord.model_validate({**row, "artifacts": artifacts})


async def find_artifact(reader: Reader, *, account_id: str, task_id: str, index: int) -> ArtifactRecord | None:
    """One result of a generation of this account; look at its `status` before delivering it."""
    row = await reader.one(_QUERIES["find_artifact"], account_id=account_id, task_id=task_id, index=index)
    return None if row is None else ArtifactRecord.model_validate(row)


async def readiness(reader: Reader) -> tuple[ModelReadiness, ...]:
    """Models, by digest, whose canary passed on a card that reports now, under its present agent."""
    rows = await reader.all(_QUERIES["readiness"], fresh=timeouts.REPORT_FRESH)
    return tuple(ModelReadiness.model_validate(row) for row in rows)


async def open_tasks(reader: Reader, *, older_than: timedelta) -> tuple[str, ...]:
    """Generations that hold credits since at least `older_than`, oldest first, at most `SWEEP_MAX`.

    Each must have an open workflow: the sweep asks Temporal for each and settles the matter where there is none.
    """
    rows = await reader.all(_QUERIES["open_tasks"], older_than=older_than, limit=SWEEP_MAX)
    return tuple(row["task_id"] for row in rows)
