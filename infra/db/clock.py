"""The database's clock, by which leases lapse and admissions end."""

from datetime import datetime

from infra.db.handles import Reader
from infra.db.queries import Query

_NOW = Query("server_time", "select clock_timestamp() as at")


async def server_time(reader: Reader) -> datetime:
    """What time it is for the server."""
    at: datetime = await reader.value(_NOW)
    return at
