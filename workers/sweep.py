"""The sweep without a workflow server's worker: at start, before admission opens, and from the command line."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio.client import Client

from infra import sweep as steps
from infra.db import Database
from infra.storage.store import BlobStore
from infra.sweep.courses import TemporalSilentError
from workflows.contracts.sweep import FINDINGS_SHOWN_MAX, SweepOrder, SweepPart, SweepReport

__all__ = ["TemporalSilentError", "sweep"]


async def sweep(
    database: Database, client: Client, order: SweepOrder, *, store: BlobStore | None = None
) -> SweepReport:
    """Every step that the scheduled sweep has, in its order. Waits for no worker; safe to repeat, side by side.

    Args:
        database: Where the holds are.
        client: Where the workflows are.
        order: How; nothing younger than `young_s` is looked at, unless no admission can be under way.
        store: Where the bytes are; without it they are left alone, as before admission opens.

    Raises:
        TemporalSilentError: Temporal did not answer; what was mended stays.
        DatabaseTrouble: Postgres did not answer.
        StoreAwayError: The store did not answer.
    """
    todo: dict[str, Callable[[], Awaitable[SweepPart]]] = {
        "courses": lambda: steps.sweep_courses(database, client, order),
        "workflows": lambda: steps.sweep_workflows(database, client, order),
        "lots": lambda: steps.sweep_lots(database, order),
    }
    if store is not None:
        todo["store"] = lambda: steps.sweep_store(database, store, order, at_least=timedelta(0))
    report = SweepReport(dry_run=order.dry_run, looked_at={})
    for name, step in todo.items():
        part = await step()
        findings = report.findings + part.findings
        report = report.model_copy(
            update={
                "looked_at": report.looked_at | {name: part.looked_at},
                "findings": findings[:FINDINGS_SHOWN_MAX],
                "more": report.more + part.more + max(0, len(findings) - FINDINGS_SHOWN_MAX),
            }
        )
    return report
