"""What people and processes read of generations."""

from collections.abc import Sequence
from datetime import timedelta

from infra.db import Reader, load
from infra.generations.doubts import doubt_of
from infra.generations.records import ArtifactRecord, GenerationRecord, ModelReadiness, OpenGeneration
from workflows.contracts import timeouts

_QUERIES = load(__package__)


async def find(reader: Reader, *, account_id: str, task_id: str) -> GenerationRecord | None:
    """A generation of this account. One that is absent and one that is another's take the same look-up."""
    row = await reader.one(_QUERIES["find"], account_id=account_id, task_id=task_id)
    if row is None:
        return None
    doubt = await doubt_of(reader, task_id) if row["unknown_since"] is not None else None
    standing = {"status": row["status"], "credit_status": row["credit_status"]}
    artifacts = [{**kept, "index": kept["idx"], **standing} for kept in row.pop("artifacts")]
    return GenerationRecord.model_validate({**row, "artifacts": artifacts, "doubt": doubt})


async def find_artifact(reader: Reader, *, account_id: str, task_id: str, index: int) -> ArtifactRecord | None:
    """One result of a generation of this account; look at its `status` before delivering it."""
    row = await reader.one(_QUERIES["find_artifact"], account_id=account_id, task_id=task_id, index=index)
    return None if row is None else ArtifactRecord.model_validate(row)


async def readiness(reader: Reader) -> tuple[ModelReadiness, ...]:
    """Models, by digest, whose canary passed on a card that reports now, under its present agent."""
    rows = await reader.all(_QUERIES["readiness"], fresh=timeouts.REPORT_FRESH)
    return tuple(ModelReadiness.model_validate(row) for row in rows)


async def open_generations(
    reader: Reader, *, older_than: timedelta, after: OpenGeneration | None = None, limit: int
) -> tuple[OpenGeneration, ...]:
    """Generations that hold credits since at least `older_than`, oldest first, those behind `after`.

    Each must have an open workflow: the sweep asks Temporal for each and takes it up again where there is none.
    """
    rows = await reader.all(
        _QUERIES["open_generations"],
        older_than=older_than,
        after_at=after.admitted_at if after else None,
        after_task=after.request.task_id if after else None,
        limit=limit,
    )
    return tuple(OpenGeneration.model_validate(row) for row in rows)


async def is_open(reader: Reader, task_id: str) -> bool:
    """Whether the generation holds credits."""
    return bool(await reader.value(_QUERIES["is_open"], task_id=task_id))


async def admitted(reader: Reader, task_ids: Sequence[str]) -> frozenset[str]:
    """Those of the ids under which credits were ever held."""
    rows = await reader.all(_QUERIES["admitted"], task_ids=list(task_ids))
    return frozenset(row["task_id"] for row in rows)
