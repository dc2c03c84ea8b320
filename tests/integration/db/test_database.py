"""The pool, its handles and its errors, with a server that comes and goes."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from infra import ledger
from infra.db import Database, DatabaseAway, DatabaseBusy, Query, Refused, migrate
from infra.db.errors import Overdraft
from tests.support.eventually import eventually
from tests.support.generations import Ways, request
from tests.support.postgres import PostgresServer
from workflows.contracts.states import AdmissionOutcome

ONE = Query("one", "select 1 as one")
SLEEP = Query("sleep", "select pg_sleep(%(seconds)s)")
RENAME = Query("rename", "update account set display_name = %(name)s where id = 'house'")
NAME = Query("name", "select display_name from account where id = 'house'")
NONSENSE = Query("nonsense", "select nonsense from nowhere")
OVERDRAW = Query(
    "overdraw",
    "insert into transfer (kind, cause, debit_account, credit_account, amount, key, reason, actor)"
    " values ('direct', 'adjustment', 'house', 'issuance', 1, 'k', 'r', 'a')",
)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A durable server of this test's own, to crash."""
    server = PostgresServer.create(durable=True)
    yield server
    server.remove()


@pytest.fixture
async def away() -> AsyncIterator[Database]:
    """A database at an address where nobody listens."""
    async with Database("host=/nonexistent dbname=none", application="test") as database:
        yield database


async def test_what_was_committed_survives_a_crash(own_postgres: PostgresServer) -> None:
    await migrate(own_postgres.conninfo())
    async with Database(own_postgres.conninfo(), application="test", pool_max=3) as database:
        ways = Ways(database)
        account = await ways.account(100)
        asked = request(account)
        await ways.admit(asked)
        own_postgres.kill()
        with pytest.raises(DatabaseAway):
            await ways.balance(account)
        own_postgres.start()

        async def is_back() -> bool:
            try:
                return await ways.balance(account) == (90, 10, 0)
            except DatabaseAway:
                return False

        await eventually(is_back, what="the pool's own recovery")
        assert (await ways.admit(asked)).outcome is AdmissionOutcome.HELD
        assert await ways.balance(account) == (90, 10, 0)
        assert await ways.breaches() == []


async def test_a_restart_between_two_calls_goes_unnoticed(own_postgres: PostgresServer) -> None:
    """A connection that died while it was idle is found out before it is lent."""
    async with Database(own_postgres.conninfo(), application="test", pool_max=3) as database:
        async with database.read() as reader:
            assert await reader.value(ONE) == 1
        own_postgres.stop()
        own_postgres.start()
        async with database.read() as reader:
            assert await reader.value(ONE) == 1


async def test_opening_does_not_need_a_server(away: Database) -> None:
    with pytest.raises(DatabaseAway):
        async with away.read():
            raise AssertionError("nobody is there")
    with pytest.raises(DatabaseAway):
        async with away.transaction():
            raise AssertionError("nobody is there")
    with pytest.raises(DatabaseAway):
        async with away.session():
            raise AssertionError("nobody is there")


async def test_a_full_pool_is_away(conninfo: str) -> None:
    async with (
        Database(conninfo, application="test", pool_max=1) as database,
        database.read() as reader,
    ):
        assert await reader.value(ONE) == 1
        with pytest.raises(DatabaseAway):
            async with database.read():
                raise AssertionError("the only connection is lent")


async def test_a_statement_without_end_is_ended(conninfo: str) -> None:
    async with Database(f"{conninfo}", application="test") as database:
        with pytest.raises(DatabaseBusy):
            async with database.single_statement() as tx:
                await tx.value(SLEEP, seconds=10)
        async with database.read() as reader:
            assert await reader.value(ONE) == 1


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    async def half() -> None:
        async with database.transaction() as tx:
            await tx.run(RENAME, name="half done")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await half()
    async with database.read() as reader:
        assert await reader.value(NAME) == "The platform itself"


async def test_a_single_statement_commits_itself_and_allows_no_second(database: Database) -> None:
    async with database.single_statement() as tx:
        assert await tx.run(RENAME, name="renamed") == 1
        with pytest.raises(RuntimeError, match="second statement"):
            await tx.run(RENAME, name="again")
    async with database.read() as reader:
        assert await reader.value(NAME) == "renamed"


async def test_a_broken_rule_is_a_noun_and_a_fault_of_ours_stays_itself(database: Database) -> None:
    with pytest.raises(Overdraft) as refused:
        async with database.transaction() as tx:
            await tx.run(OVERDRAW)
    assert isinstance(refused.value, Refused)
    with pytest.raises(Exception, match="nowhere") as fault:
        async with database.transaction() as tx:
            await tx.run(NONSENSE)
    assert not isinstance(fault.value, DatabaseAway | Refused)


async def test_there_is_one_leader_and_its_death_frees_the_role(database: Database) -> None:
    async with database.session() as second:
        async with database.session() as first:
            assert await first.try_lead("placer")
            assert await first.try_lead("placer")
            assert not await second.try_lead("placer")
            assert await second.try_lead("relay")

        async def won() -> bool:
            return await second.try_lead("placer")

        await eventually(won, what="the follower's turn")


async def test_many_notifications_are_one_wake_up(database: Database) -> None:
    notify = Query("notify", "select pg_notify('holdfast_place', 'card:a')")
    async with database.session() as session:
        await session.listen("holdfast_place", "holdfast_outbox")
        for _ in range(5):
            async with database.single_statement() as tx:
                await tx.one(notify)
        assert await session.wait(timedelta(seconds=20)) == {"card:a"}


async def test_an_account_that_is_not_there_is_told_apart_from_a_server_that_is_not(database: Database) -> None:
    with pytest.raises(Refused):
        async with database.read() as reader:
            await ledger.balance(reader, "nobody")
