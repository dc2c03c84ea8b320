"""Results, claims, bytes and credits without an owner: found in a dry run unchanged, then repaired."""

import asyncio
import hashlib
import os
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from infra.db import Database, Query
from infra.settings import Settings
from infra.storage.store import BlobStore, key
from infra.sweep import open_counts, sweep_lots, sweep_store
from tests.support.generations import Ways, blob, request
from workflows.contracts.sweep import Kind, SweepOrder, SweepPart

CONTENT = b"bytes of nobody" * 100
SHA = hashlib.sha256(CONTENT).hexdigest()
ORDER = SweepOrder(actor="test")
DRY = ORDER.model_copy(update={"dry_run": True})
AT_ONCE = timedelta(0)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    """A local store."""
    return BlobStore.from_settings(Settings(home=tmp_path / "home", signing_secret=SecretStr("s"), api_port=1))


async def run(database: Database, text: str, **parameters: object) -> None:
    async with database.transaction() as tx:
        await tx.run(Query("test", text), **parameters)


async def put(store: BlobStore, folder: Path) -> None:
    path = folder / "bytes"
    await asyncio.to_thread(path.write_bytes, CONTENT)
    await store.put_file(path, SHA)


async def has(store: BlobStore) -> bool:
    return await store.head(SHA) is not None


def kinds(part: SweepPart) -> list[tuple[Kind, bool]]:
    return [(finding.kind, finding.repaired) for finding in part.findings]


async def test_bytes_without_a_row_are_found_and_then_deleted(
    database: Database, store: BlobStore, tmp_path: Path
) -> None:
    await put(store, tmp_path)
    file = next((tmp_path / "home").rglob(key(SHA).rpartition("/")[2]))
    os.utime(file, (0, 0))
    assert kinds(await sweep_store(database, store, DRY, at_least=AT_ONCE)) == [(Kind.BYTES_WITHOUT_ROW, False)]
    assert await has(store)
    assert kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE)) == [(Kind.BYTES_WITHOUT_ROW, True)]
    assert not await has(store)


async def test_a_blob_that_nobody_claims_is_found_and_then_deleted(
    database: Database, store: BlobStore, tmp_path: Path
) -> None:
    await put(store, tmp_path)
    await run(
        database,
        "insert into blob (sha256, size, mime, stored_at) values (%(sha)s, 1, 'image/png', clock_timestamp())",
        sha=SHA,
    )
    assert kinds(await sweep_store(database, store, DRY, at_least=AT_ONCE)) == [(Kind.BLOB_WITHOUT_OWNER, False)]
    assert await has(store)
    assert kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE)) == [(Kind.BLOB_WITHOUT_OWNER, True)]
    assert not await has(store)


async def test_a_claim_whose_request_is_over_is_found_and_then_dropped(
    database: Database, ways: Ways, store: BlobStore
) -> None:
    account = await ways.account()
    await run(
        database,
        "with b as (insert into blob (sha256, size, mime) values (%(sha)s, 1, 'image/png')) "
        "insert into upload values (%(sha)s, %(account)s, 'op', clock_timestamp() - interval '1 hour')",
        sha=SHA,
        account=account,
    )
    assert (Kind.CLAIM_WITHOUT_OWNER, False) in kinds(await sweep_store(database, store, DRY, at_least=AT_ONCE))
    done = kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE))
    assert (Kind.CLAIM_WITHOUT_OWNER, True) in done
    assert kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE)) == []


async def test_a_result_of_a_generation_that_did_not_deliver_it_is_let_go(
    database: Database, ways: Ways, store: BlobStore
) -> None:
    account = await ways.account()
    lost, delivered = request(account), request(account)
    for asked in (lost, delivered):
        await ways.admit(asked)
        await ways.keep(asked, asked.task_id)
    await ways.settle(delivered.task_id)
    await ways.release(lost.task_id)
    assert kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE)) == [], "it has just ended"
    await run(database, "alter table generation disable trigger generation_guard")
    await run(database, "update generation set finished_at = finished_at - interval '2 hours'")
    await run(database, "alter table generation enable trigger generation_guard")

    (finding,) = (await sweep_store(database, store, DRY, at_least=AT_ONCE)).findings
    assert (finding.kind, finding.subject) == (Kind.ARTIFACT_WITHOUT_OWNER, lost.task_id)
    found = (await sweep_store(database, store, ORDER, at_least=AT_ONCE)).findings
    assert found[0] == finding.model_copy(update={"repaired": True})
    async with database.read() as reader:
        kept = await reader.all(Query("kept", "select sha256 from artifact where expires_at > clock_timestamp()"))
    assert [row["sha256"] for row in kept] == [blob(delivered.task_id).sha256]


async def test_the_schedule_walks_the_store_now_and_then_and_a_person_at_once(
    database: Database, store: BlobStore, tmp_path: Path
) -> None:
    assert await sweep_store(database, store, ORDER) == SweepPart()
    await put(store, tmp_path)
    os.utime(next((tmp_path / "home").rglob(key(SHA).rpartition("/")[2])), (0, 0))
    assert await sweep_store(database, store, ORDER) == SweepPart(), "it was walked a moment ago"
    assert kinds(await sweep_store(database, store, ORDER, at_least=AT_ONCE)) == [(Kind.BYTES_WITHOUT_ROW, True)]


async def test_credits_past_their_date_are_found_and_then_booked_as_expired(
    database: Database, ways: Ways
) -> None:
    account = await ways.account(0)
    await run(
        database,
        "select grant_v1(%(account)s, 7, 'promotion', clock_timestamp() + interval '50 ms', 'test', 'test', 'k')",
        account=account,
    )
    await run(database, "select pg_sleep(0.1)")
    (finding,) = (await sweep_lots(database, DRY)).findings
    assert (finding.kind, finding.subject, finding.repaired) == (Kind.LOT_DUE, account, False)
    assert "7 credits" in finding.detail
    assert kinds(await sweep_lots(database, ORDER)) == [(Kind.LOT_DUE, True)]
    assert await sweep_lots(database, ORDER) == SweepPart()
    assert await ways.breaches() == []


async def test_what_is_found_and_not_mended_is_counted_until_it_is_gone(database: Database, ways: Ways) -> None:
    await run(
        database,
        "select record_sweep_v1('courses', array['money_step_refused'],"
        ' \'[{"kind": "money_step_refused", "subject": "gen_x", "detail": "d", "remedy": "r",'
        ' "repaired": false, "act": false}]\', 1, \'test\')',
    )
    async with database.read() as reader:
        counts = {one.kind: one.count for one in await open_counts(reader)}
    assert counts == {kind: int(kind is Kind.MONEY_STEP_REFUSED) for kind in Kind}
    await run(database, "select record_sweep_v1('courses', array['money_step_refused'], '[]', 1, 'test')")
    async with database.read() as reader:
        assert sum(one.count for one in await open_counts(reader)) == 0
