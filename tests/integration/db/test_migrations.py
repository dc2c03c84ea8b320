"""Migrations: once each, in order, by one process at a time, never changed."""

import asyncio
import re
from collections.abc import Iterator

import psycopg
import pytest

from infra.db import migrate
from infra.db.errors import SchemaMismatch
from infra.db.migrate import pending, shipped
from tests.support.postgres import PostgresServer


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[str]:
    """A database without anything of ours."""
    name = postgres.create_database(template="template1")
    yield postgres.conninfo(name)
    postgres.drop_database(name)


async def test_many_processes_at_once_apply_each_once(empty: str) -> None:
    names = [migration.name for migration in shipped()]
    assert await pending(empty) == names
    applied = await asyncio.gather(*(migrate(empty) for _ in range(4)))
    assert sorted(applied, key=len) == [[], [], [], names]
    assert await pending(empty) == []


async def test_an_applied_file_that_changed_is_refused(conninfo: str) -> None:
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("update holdfast.migration set checksum = 'x' where name = '0001_pre_ledger'")
    with pytest.raises(SchemaMismatch, match="0001_pre_ledger"):
        await migrate(conninfo)


def test_names_say_their_order_and_their_side_of_a_deployment() -> None:
    numbers = []
    for migration in shipped():
        found = re.fullmatch(r"(\d{4})_(pre|post)_[a-z_]+", migration.name)
        assert found, migration.name
        numbers.append(found[1])
    assert sorted(set(numbers)) == numbers, "a number is given once"
