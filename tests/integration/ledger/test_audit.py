"""The audit finds each kind of breach. The rules that prevent them are switched off to plant one."""

import psycopg
import pytest

from infra import ledger
from infra.db import Database
from tests.support import money_damages
from tests.support.generations import Ways, request


@pytest.fixture
async def history(ways: Ways) -> str:
    """One generation completed, one released, one waiting, one on a card; the waiting one's account."""
    await ways.report()
    account = await ways.account(100)
    completed = request(account)
    await ways.admit(completed)
    await ways.keep(completed)
    await ways.settle(completed.task_id, 8)
    await ways.release((await ways.admit(request(account))).task_id)
    assert (await ways.admit(request(account))).lease is not None
    await ways.admit(request(account))
    assert await ways.breaches() == []
    return account


DAMAGES: dict[str, tuple[str, set[str]]] = {
    "credits minted by hand": (
        "update account set credits_posted = credits_posted + 1 where kind = 'user'",
        {"counters_differ_from_transfers"},
    ),
    "a hold of another amount": (
        "update transfer set amount = amount - 1 where kind = 'pending'",
        {"counters_differ_from_transfers", "generations_without_one_hold"},
    ),
    "a post of another amount": (
        "update transfer set amount = 3 where kind = 'post'",
        {"counters_differ_from_transfers", "credit_status_differs_from_transfers"},
    ),
    "a post above its hold": (
        "update transfer set amount = 50 where kind = 'post'",
        {
            "counters_differ_from_transfers",
            "credit_status_differs_from_transfers",
            "posts_above_their_hold",
        },
    ),
    "a void that vanished": (
        "delete from transfer where kind = 'void'",
        {"counters_differ_from_transfers", "credit_status_differs_from_transfers"},
    ),
    "a charge other than the terms": (
        """
        update generation set request = jsonb_set(request, '{price}', '{"per_output": [10]}')
        where status = 'completed'
        """,
        {"charged_otherwise_than_delivered"},
    ),
    "a hold resolved twice": (
        """
        drop index one_resolution_per_hold;
        insert into transfer
            (kind, cause, pending_id, debit_account, credit_account, amount, task_id, reason, actor)
        select kind, cause, pending_id, debit_account, credit_account, amount, task_id, reason, actor
        from transfer where kind = 'void'
        """,
        {"holds_resolved_twice"},
    ),
    "an overdraft": (
        """
        alter table account drop constraint no_overdraft;
        update account set credits_posted = 0 where kind = 'user'
        """,
        {"accounts_overdrawn", "counters_differ_from_transfers"},
    ),
    "a result that vanished": ("delete from artifact", {"completed_without_results"}),
    "a result with a gap before it": ("update artifact set idx = 3", {"completed_without_results"}),
    "a failure told as a success": (
        "update generation set credit_status = 'settled', status = 'completed' where status = 'failed'",
        {"credit_status_differs_from_transfers"},
    ),
    "a ticket that vanished": ("delete from ticket", {"waiting_without_ticket_or_lease"}),
    "a lease that ended alone": (
        "update lease set state = 'ended', ended_at = now(), end_reason = 'x' where state = 'accepted'",
        {"waiting_without_ticket_or_lease", "cards_and_leases_differ"},
    ),
    "a lease of a generation that is over": (
        """
        update lease set task_id = (select task_id from generation where status = 'failed')
        where state = 'accepted'
        """,
        {"final_with_open_lease", "waiting_without_ticket_or_lease"},
    ),
    "a fence that could repeat": ("update card set next_fence = 1", {"cards_and_leases_differ"}),
    "a result without its bytes": ("update blob set stored_at = null", {"results_of_blobs_not_stored"}),
    "an end that nobody was told": ("delete from outbox", {"ends_not_told"}),
    "a message left lying": (
        "update outbox set created_at = now() - interval '6 minutes'",
        {"messages_undelivered"},
    ),
    "an unknown outcome that nobody was asked about": (
        """
        update generation set credit_status = 'unknown', phase = 'reconciling', unknown_since = now(),
            unknown_reason = 'x', resolve_by = now() - interval '2 minutes' where phase = 'placed';
        update lease set state = 'ended', ended_at = now(), end_reason = 'unknown' where state = 'accepted';
        update card set lease_id = null
        """,
        {"unknown_past_their_date"},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_it_finds(ways: Ways, conninfo: str, history: str, name: str) -> None:
    damage, breached = DAMAGES[name]
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = holdfast")
        await connection.execute("set session_replication_role = replica")  # no triggers, no foreign keys
        await connection.execute(damage.encode())
    assert {finding.name for finding in await ways.breaches()} == breached


async def test_each_invariant_is_proven_to_be_found() -> None:
    provable = {query.name for query in ledger.INVARIANTS} - {"entries_sum_to_zero"}
    planted = (*DAMAGES.values(), *money_damages.DAMAGES.values())
    assert set().union(*(breached for _, breached in planted)) == provable, (
        "entries are a view over transfers with two sides each: their sum can't be broken by data"
    )


async def test_it_sees_one_moment_of_a_live_system(database: Database, ways: Ways) -> None:
    account = await ways.account(100)
    async with database.read() as reader, reader.snapshot() as moment:
        before = await ledger.balance(moment, account)
        await ways.admit(request(account))
        assert await ledger.balance(moment, account) == before
    assert await ways.balance(account) == (90, 10, 0)


async def test_it_refuses_a_transaction(database: Database) -> None:
    async with database.transaction() as tx:
        with pytest.raises(TypeError):
            await ledger.audit(tx)
