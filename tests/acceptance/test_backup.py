"""A stack that is backed up, deleted and restored is the same: money, generations, pictures, what was open."""

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.db import Database
from infra.ledger import Balance, balance
from infra.local.postgres import EmbeddedPostgres
from tests.support.embedded import EmbeddedStack, content, create, task
from tests.support.eventually import eventually
from tests.support.pictures import png
from workers import demo_account

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture
def stack() -> Iterator[EmbeddedStack]:
    """A home that isn't there yet, and whatever was made of it gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hf-backup-"))
    folder.chmod(0o755)  # so that all data are under it, also when root runs the test
    made = EmbeddedStack(folder / "home")
    yield made
    made.holdfast("down")
    shutil.rmtree(folder)


async def money(stack: EmbeddedStack) -> Balance:
    conninfo = EmbeddedPostgres(stack.layout).conninfo()
    async with Database(conninfo, application="test") as database, database.read() as reader:
        return await balance(reader, demo_account.ACCOUNT)


@asynccontextmanager
async def up(stack: EmbeddedStack) -> AsyncIterator[httpx.Client]:
    """The stack, ready to generate, and a client of it; stopped afterwards."""
    stack.holdfast("up", "--detach")
    with stack.client() as client:
        await eventually(lambda: client.get("/ready").is_success, within=120, what="the canary to pass")
        yield client
    stack.holdfast("down")


async def ended(client: httpx.Client, task_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        said = task(client, task_id)
        return said if said["status"] != "pending" else None

    found = await eventually(look, within=240, what="the generation to end")
    assert found is not None
    return found


async def test_all_is_as_it_was_and_what_was_open_goes_on(stack: EmbeddedStack) -> None:
    file = str(stack.layout.home.parent / "backup.tar.gz")
    async with up(stack) as client:
        first = create(client, png(seed=1))
        done = await ended(client, first)
        assert done["status"] == "completed"
        picture = content(client, first)
        # Some 15 s on two idle cores: it will be in the middle of its run.
        second = create(client, png(192, 192, seed=2), scale=4, mode="photo")
        await eventually(lambda: task(client, second)["phase"] == "running", what="the second to run")
        before = await money(stack)
        assert "holdfast down" in stack.holdfast("backup", file, ends_with=1).stderr
    stack.holdfast("backup", file)
    assert "exists" in stack.holdfast("backup", file, ends_with=1).stderr
    assert "--replace" in stack.holdfast("restore", file, ends_with=1).stderr
    stack.holdfast("reset", "--yes")
    assert not stack.layout.home.exists()

    stack.holdfast("restore", file)
    async with up(stack) as client:
        assert task(client, first) == done, "its addresses included"
        assert content(client, first) == picture
        # Its run was cut off. With the outage longer than its host may be silent, its end is an honest failure.
        paid = (await ended(client, second))["status"] == "completed"
        after = await money(stack)
        assert (after.held, after.spent) == (0, before.spent + before.held * paid)
        assert after.available == before.available + before.held * (not paid)
        assert json.loads(stack.holdfast("ledger", "audit", "--json").stdout)["ok"]
        assert json.loads(stack.holdfast("doctor", "--json").stdout)["ok"]

    # The same file once more, over what is there now, and without Temporal's histories.
    stack.holdfast("restore", file, "--replace", "--without-temporal")
    assert not list(stack.layout.home.glob("*.replaced"))
    async with up(stack) as client:
        assert content(client, first) == picture
        assert (await ended(client, second))["status"] == "completed", task(client, second)
        repeated = await money(stack)
        assert (repeated.held, repeated.spent) == (0, before.spent + before.held)
        assert json.loads(stack.holdfast("ledger", "audit", "--json").stdout)["ok"]


async def test_a_restore_that_fails_leaves_everything_as_it_was(stack: EmbeddedStack) -> None:
    file = stack.layout.home.parent / "backup.tar.gz"
    async with up(stack) as client:
        first = create(client, png())
        await ended(client, first)
        picture = content(client, first)
    stack.holdfast("backup", str(file))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "can't be used" in stack.holdfast("restore", str(file), "--replace", ends_with=1).stderr
    file.write_bytes(whole)
    stack.layout.restoring.write_text(str(file))
    assert "cut off" in stack.holdfast("up", "--detach", ends_with=1).stderr, "half a stack was started"
    assert "half" in stack.holdfast("backup", str(file) + "2", ends_with=1).stderr
    stack.holdfast("restore", str(file), "--replace")
    async with up(stack) as client:
        assert content(client, first) == picture
