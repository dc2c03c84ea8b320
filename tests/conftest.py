"""Fixtures that every tier may use: a real Postgres, and a migrated database for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from infra.db import Database, migrate
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session, with a migrated template."""
    server = PostgresServer.create()
    try:
        asyncio.run(migrate(server.create_template()))
        yield server
    finally:
        server.remove()


@pytest.fixture
def conninfo(postgres: PostgresServer) -> Iterator[str]:
    """A migrated database of one's own."""
    name = postgres.create_database()
    yield postgres.conninfo(name)
    postgres.drop_database(name)


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    """An opened pool on `conninfo`."""
    async with Database(conninfo, application="test", pool_max=16) as database:
        yield database
