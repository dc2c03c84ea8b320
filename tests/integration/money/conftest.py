"""A server that may be killed: the session's own is for tests that need theirs alive."""

import asyncio
from collections.abc import Iterator

import pytest

from infra.db import migrate
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def mortal() -> Iterator[PostgresServer]:
    """Its log is what survives a kill of its processes; a loss of power is another test's."""
    server = PostgresServer.create()
    try:
        asyncio.run(migrate(server.create_template()))
        yield server
    finally:
        server.remove()
