"""Figures of the whole platform for its gauges, read from the database."""

from infra import metrics
from infra.db import Reader, load
from infra.sweep.findings import open_counts

_QUERIES = load("infra.sweep", "figures.sql")
_STATUSES = ("held", "unknown")


async def show(reader: Reader) -> None:
    """Read what the gauges tell, and show it."""
    rows = {row["credit_status"]: row for row in await reader.all(_QUERIES["open_by_status"])}
    unknown = rows.get("unknown", {"count": 0, "credits": 0, "oldest_s": 0.0, "raised": 0})
    metrics.show(
        "generations_open",
        [({"credit_status": status}, rows[status]["count"] if status in rows else 0) for status in _STATUSES],
    )
    metrics.show("credits_held", [({}, sum(row["credits"] for row in rows.values()))])
    metrics.show("unknown_open", [({}, unknown["count"])])
    metrics.show("unknown_credits", [({}, unknown["credits"])])
    metrics.show("unknown_oldest_seconds", [({}, unknown["oldest_s"])])
    metrics.show("unknown_raised", [({}, unknown["raised"])])
    metrics.show("sweep_open", [({"kind": one.kind.value}, one.count) for one in await open_counts(reader)])
    metrics.show(
        "sweep_age_seconds",
        [({"step": row["step"]}, row["age_s"]) for row in await reader.all(_QUERIES["looks"])],
    )
    waiting = await reader.all(_QUERIES["outbox_waiting"])
    metrics.show("outbox_waiting", [({"topic": row["topic"]}, row["count"]) for row in waiting])
