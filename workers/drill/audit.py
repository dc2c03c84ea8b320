"""The audit at the end of a drill."""

from infra import ledger
from infra.db import Database, DatabaseTrouble
from workers.bench.awaiting import eventually

AUDIT_S = 30
"""Messages in the outbox and reports of cards are a few seconds behind what they tell of."""


async def breaches(database: Database) -> tuple[str, ...]:
    """What the audit finds broken, after it had time to catch up."""
    found: tuple[str, ...] = ("the audit never answered",)

    async def clean() -> bool:
        nonlocal found
        async with database.read() as reader:
            findings = await ledger.audit(reader)
        found = tuple(f"{one.name} = {one.value} {one.detail}".strip() for one in findings if not one.ok)
        return not found

    try:
        await eventually(clean, within_s=AUDIT_S, each_s=0.5, despite=(DatabaseTrouble,))
    except TimeoutError:
        return found
    return ()
