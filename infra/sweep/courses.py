"""Holds against workflows, and workflows against holds."""

import asyncio
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from infra import generations as records
from infra.db import Database
from infra.generations import OpenGeneration
from infra.sweep.findings import _QUERIES, BATCH, Notes, batches
from infra.temporal import courses, generations
from infra.temporal.courses import Look, Standing
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.sweep import Kind, SweepOrder, SweepPart

GRACE = timedelta(minutes=10)
"""A workflow that is over in the database has this long to end: its last steps take a second."""
SIDE_BY_SIDE = 16
"""Looks at the server at once."""
TERMINATED = "no generation of this id is in the database; nothing was held"
CONTRADICTION = "its workflow ran to its end, and the hold is open still: the database is older than the workflow"
_REFUSED = "MoneyStepRefusedError"
"""The class by which a workflow says that the database refuses a step."""


class TemporalSilentError(Exception):
    """Temporal did not answer the sweep; what was mended so far stays, and repeating it does no harm."""


async def sweep_courses(database: Database, client: Client, order: SweepOrder) -> SweepPart:
    """Whether all that holds credits has an open workflow that gets on; what lost its own is taken up again.

    Raises:
        TemporalSilentError: Temporal did not answer.
        DatabaseTrouble: Postgres did not.
    """
    notes = Notes(
        "courses",
        (
            Kind.HOLD_WITHOUT_OPEN_WORKFLOW,
            Kind.ROW_WITHOUT_WORKFLOW,
            Kind.ROW_CONTRADICTS_WORKFLOW,
            Kind.LATE_LOOK_WITHOUT_WORKFLOW,
            Kind.MONEY_STEP_REFUSED,
            Kind.WORKFLOW_TASK_FAILING,
        ),
        order,
    )
    after: OpenGeneration | None = None
    try:
        while True:
            async with database.read() as reader:
                batch = await records.open_generations(
                    reader, older_than=timedelta(seconds=order.young_s), after=after, limit=BATCH
                )
            for start in range(0, len(batch), SIDE_BY_SIDE):
                some = batch[start : start + SIDE_BY_SIDE]
                looks = await asyncio.gather(*(courses.look(client, each.request.task_id) for each in some))
                for each, look in zip(some, looks, strict=True):
                    await _judge(database, client, notes, each, look)
            notes.looked_at += len(batch)
            if len(batch) < BATCH:
                break
            after = batch[-1]
        await _late_searches(database, client, notes)
    except (RPCError, generations.TemporalAway) as error:
        raise TemporalSilentError(str(error)) from error
    return await notes.close(database)


async def _late_searches(database: Database, client: Client, notes: Notes) -> None:
    """A search for a late result goes on in a workflow, though the row is final; one that is lost goes on anew."""
    after = ""
    while True:
        async with database.read() as reader:
            rows = await reader.all(
                _QUERIES["late_searches"], young_s=notes.order.young_s, after=after, limit=BATCH
            )
        for row in rows:
            look = await courses.look(client, row["task_id"])
            if look.standing is Standing.OPEN:
                continue
            repaired = False
            if not notes.order.dry_run:
                try:
                    await generations.resume(client, GenerationRequest.model_validate(row["request"]))
                except generations.CourseCompleted:
                    continue  # it ends the search before it completes; the next sweep looks again
                repaired = True
            notes.note(
                Kind.LATE_LOOK_WITHOUT_WORKFLOW,
                row["task_id"],
                f"a result is looked for after the release; the workflow is {look.status}",
                "take the search up again; nothing is charged",
                repaired=repaired,
            )
        notes.looked_at += len(rows)
        if len(rows) < BATCH:
            return
        after = rows[-1]["task_id"]


async def _judge(database: Database, client: Client, notes: Notes, each: OpenGeneration, look: Look) -> None:
    task_id = each.request.task_id
    match look.standing:
        case Standing.OPEN:
            if look.is_stuck:
                await _stuck(client, notes, task_id, look)
        case Standing.COMPLETED:
            await _contradiction(database, notes, task_id)
        case Standing.ABSENT | Standing.BROKEN_OFF:
            await _take_up(database, client, notes, each, look)


async def _take_up(database: Database, client: Client, notes: Notes, each: OpenGeneration, look: Look) -> None:
    """Start the course again under the same id: an open one is joined, so that two sweeps start it once."""
    task_id = each.request.task_id
    if not await _still_open(database, task_id):
        return  # it ended under our eyes
    absent = look.standing is Standing.ABSENT
    kind = Kind.ROW_WITHOUT_WORKFLOW if absent else Kind.HOLD_WITHOUT_OPEN_WORKFLOW
    detail = f"{each.request.price_credits} credits are held; " + (
        "the server knows of no workflow" if absent else f"the workflow is {look.status}"
    )
    repaired = False
    if not notes.order.dry_run:
        try:
            await generations.resume(client, each.request, each.cancel)
        except generations.CourseCompleted:
            return  # somebody else took it up meanwhile, and it is over; the next sweep looks again
        repaired = True
    notes.note(kind, task_id, detail, "take the course up again; what ran is looked for first", repaired=repaired)


async def _contradiction(database: Database, notes: Notes, task_id: str) -> None:
    """A workflow commits its end before it completes, so one that completed under our eyes shows now."""
    if not await _still_open(database, task_id):
        return
    if not notes.order.dry_run:
        async with database.single_statement() as tx:
            await tx.run(_QUERIES["raise_contradiction"], task_id=task_id, reason=CONTRADICTION)
    notes.note(
        Kind.ROW_CONTRADICTS_WORKFLOW, task_id, CONTRADICTION, "show it as unknown and raised; an operator decides"
    )


async def _stuck(client: Client, notes: Notes, task_id: str, look: Look) -> None:
    fault = await courses.last_fault(client, task_id, look.run_id)
    if fault is None:
        return  # its worker was lost, or is slow: that is no fault of the code
    kind = Kind.MONEY_STEP_REFUSED if fault.kind == _REFUSED else Kind.WORKFLOW_TASK_FAILING
    detail = f"workflow task tried {look.task_attempt} times: {fault.kind}: {fault.message}"
    notes.note(kind, task_id, detail, "mend the code and deploy it; the workflow goes on. Don't terminate it")


async def _still_open(database: Database, task_id: str) -> bool:
    async with database.read() as reader:
        return await records.is_open(reader, task_id)


async def sweep_workflows(database: Database, client: Client, order: SweepOrder) -> SweepPart:
    """Whether every open workflow has its generation; what has none holds nothing and is ended.

    A workflow that goes on after its generation's end is right while it looks for a late result: the row says so.

    Raises:
        TemporalSilentError: Temporal did not answer.
        DatabaseTrouble: Postgres did not.
    """
    notes = Notes("workflows", (Kind.WORKFLOW_WITHOUT_ROW, Kind.WORKFLOW_AFTER_END), order)
    try:
        running = {
            task_id: run_id
            async for task_id, run_id in courses.open_courses(client, older_than=timedelta(seconds=order.young_s))
        }
        for some in batches(running):
            async with database.read() as reader:
                rows = await reader.all(_QUERIES["standings"], task_ids=some, grace=GRACE)
            known = {row["task_id"]: row for row in rows}
            for task_id in some:
                if task_id not in known:
                    await _end_unheld(client, notes, task_id, running[task_id])
                elif known[task_id]["long_over"] and not known[task_id]["awaits_late"]:
                    await _after_end(client, notes, task_id, known[task_id]["status"])
            notes.looked_at += len(some)
    except (RPCError, generations.TemporalAway) as error:
        raise TemporalSilentError(str(error)) from error
    return await notes.close(database)


async def _end_unheld(client: Client, notes: Notes, task_id: str, run_id: str) -> None:
    """Its admission is long over and took no hold. Only this run is ended: a later one is another try."""
    if notes.order.dry_run:
        repaired = False
        look = await courses.look(client, task_id)
        if look.standing is not Standing.OPEN or look.run_id != run_id:
            return  # visibility lags
    elif not (repaired := await courses.terminate(client, task_id, run_id, TERMINATED)):
        return
    notes.note(
        Kind.WORKFLOW_WITHOUT_ROW,
        task_id,
        "a workflow runs; the database knows no generation of this id",
        "end it: it holds nothing",
        repaired=repaired,
    )


async def _after_end(client: Client, notes: Notes, task_id: str, status: str) -> None:
    look = await courses.look(client, task_id)
    if look.standing is Standing.OPEN:
        notes.note(
            Kind.WORKFLOW_AFTER_END,
            task_id,
            f"the generation is {status} since over {GRACE // timedelta(minutes=1)} minutes; its workflow runs on",
            "look at the workflow; it moves no credits any more, so ending it loses none",
        )
