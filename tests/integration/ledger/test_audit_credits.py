"""The audit finds each kind of breach of lots, limits, adjustments, losses, late deliveries and acts."""

import uuid
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from infra import accounts, generations, ledger
from infra.db import Query
from tests.support.generations import Ways, request
from tests.support.money_damages import DAMAGES
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import MarkUnknown, Release
from workflows.contracts.states import Status

LATE = Query("late", "select deliver_late_v1(%(task_id)s, 'workflow:test')")
LIMIT = Query(
    "limit", "select set_limit_v1('account:' || %(account_id)s, '{\"per_minute\": 100}', 'test', 'operator:test')"
)
RESOLVE = Query(
    "resolve",
    'select resolve_v1(%(task_id)s, null, \'failed\', \'{"code": "outcome_unknown", "message": "x"}\', \'seen\','
    " 'operator:test')",
)
BY_THE_MANIFEST = "manifest:release_unknown"


async def doubt(ways: Ways, task_id: str) -> None:
    """Let nobody know the outcome."""
    now = datetime.now(UTC)
    async with ways.database.single_statement() as tx:
        await generations.mark_unknown(
            tx,
            MarkUnknown(
                task_id=task_id,
                since=now,
                reason="silence",
                awaiting="the host",
                next_look_at=now,
                resolve_by=now + timedelta(hours=1),
            ),
        )


async def release_by_manifest(ways: Ways, task_id: str) -> None:
    """Release an unknown outcome at the house's cost."""
    async with ways.database.single_statement() as tx:
        await generations.release(
            tx,
            Release(
                task_id=task_id,
                status=Status.FAILED,
                failure=Failure(code=Code.OUTCOME_UNKNOWN, message="Nobody knows."),
                lease_id=None,
                actor=BY_THE_MANIFEST,
            ),
        )


@pytest.fixture
async def history(ways: Ways) -> str:
    """All that can happen to credits beside a plain hold and its end."""
    account = await ways.account(100)
    soon = datetime.now(UTC) + timedelta(days=1)
    async with ways.database.transaction() as tx:
        await ledger.promote(
            tx, account_id=account, credits=15, expires_at=soon, reason="hello", actor="operator:test", key="hello"
        )
        await tx.run(LIMIT, account_id=account)
        await accounts.create_member(
            tx, account_id=account, email="a@example.org", password="x" * 12, role=accounts.Role.OWNER
        )
    settled, lost, decided = request(account), request(account), request(account)
    await ways.admit(settled)
    await ways.keep(settled)
    await ways.settle(settled.task_id, 8)
    await ways.admit(request(account))  # stays open, with draws
    for asked in (lost, decided):
        await ways.admit(asked)
        await doubt(ways, asked.task_id)
    await release_by_manifest(ways, lost.task_id)
    await ways.keep(lost, "late")
    async with ways.database.transaction() as tx:
        await tx.value(LATE, task_id=lost.task_id)
        await tx.value(RESOLVE, task_id=decided.task_id)
        await ledger.adjust(
            tx,
            account_id=account,
            credits=5,
            task_id=settled.task_id,
            reason="half of it was wrong",
            actor="operator:test",
            key=uuid.uuid4().hex,
        )
        await ledger.freeze(tx, account_id=account, frozen=True, reason="asked", actor="operator:test")
    assert await ways.breaches() == []
    return account


@pytest.mark.parametrize("name", DAMAGES)
async def test_it_finds(ways: Ways, conninfo: str, history: str, name: str) -> None:
    damage, breached = DAMAGES[name]
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with connection:
        await connection.execute("set search_path = holdfast")
        await connection.execute("set session_replication_role = replica")  # no triggers, no foreign keys
        await connection.execute(damage.encode())
    assert {finding.name for finding in await ways.breaches()} == breached
