"""Access to Postgres: who reads, who writes, what is applied, what an error means."""

from infra.db.database import Database, conninfo_of
from infra.db.errors import DatabaseAway, DatabaseBusy, DatabaseTrouble, Refused
from infra.db.handles import Reader, Row, Tx
from infra.db.migrate import migrate
from infra.db.queries import Queries, Query, load
from infra.db.session import Session

__all__ = [
    "Database",
    "DatabaseAway",
    "DatabaseBusy",
    "DatabaseTrouble",
    "Queries",
    "Query",
    "Reader",
    "Refused",
    "Row",
    "Session",
    "Tx",
    "conninfo_of",
    "load",
    "migrate",
]
