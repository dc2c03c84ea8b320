"""Credits past their date."""

from infra.db import Database, DatabaseBusy
from infra.sweep.findings import _QUERIES, BATCH, Notes
from workflows.contracts.sweep import Kind, SweepOrder, SweepPart

ROUNDS_MAX = 50
"""Bound of one sweep: 10,000 accounts; the next one goes on."""


async def sweep_lots(database: Database, order: SweepOrder) -> SweepPart:
    """Book due credits as lost. No balance ever counts them; this makes the books say so.

    Raises:
        DatabaseTrouble: Postgres did not answer.
    """
    notes = Notes("lots", (Kind.LOT_DUE,), order)
    busy: set[str] = set()
    for _ in range(ROUNDS_MAX):
        async with database.read() as reader:
            rows = await reader.all(_QUERIES["lots_due"], limit=BATCH + len(busy))
        due = [row for row in rows if row["account_id"] not in busy]
        for row in due:
            repaired = not order.dry_run and await _expire(database, row["account_id"])
            if not repaired:
                busy.add(row["account_id"])
            notes.looked_at += row["lots"]
            notes.note(
                Kind.LOT_DUE,
                row["account_id"],
                f"{row['credits']} credits in {row['lots']} lots are past their date",
                "book them as expired",
                repaired=repaired,
            )
        if order.dry_run or len(due) < BATCH:
            break
    return await notes.close(database)


async def _expire(database: Database, account_id: str) -> bool:
    """False when somebody works on the account; the next sweep, or its next hold, does it."""
    try:
        async with database.single_statement() as tx:
            return bool(await tx.value(_QUERIES["expire_lots"], account_id=account_id))
    except DatabaseBusy:
        return False
