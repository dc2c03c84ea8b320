"""A model that no card could ever serve is refused at once, with what is missing, and nothing is held."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from infra.db import Database, Query
from tests.contract.world import World, serve, settings_for
from tests.support.catalogs import GIANT, with_giant
from tests.support.inprocess import InProcessGenerations

_SILENT = Query("silent", "update card set last_report_at = clock_timestamp() - %(age)s::interval")


@pytest.fixture
async def world(database: Database, conninfo: str, tmp_path: Path) -> AsyncIterator[World]:
    """With a model that needs more memory than there is; no card was heard of."""
    workflows = InProcessGenerations(database)
    models = with_giant(tmp_path)
    async with (
        serve(settings_for(tmp_path, conninfo), workflows, models=models) as (address, parts),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield World(client, parts, database, workflows)


async def code(world: World, model: str) -> tuple[int, str, str]:
    user = await world.user(f"u{len(world.workflows.admitted)}-{model}")
    answer = await world.create(user, "op-1", model=model)
    assert (await world.balance(user)).held == 0
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


async def test_it_says_what_is_missing(world: World) -> None:
    await world.report_card()
    status, name, message = await code(world, GIANT)
    assert (status, name) == (503, "no_capable_card")
    assert "1000000 MiB are needed, and the largest such card has 4096" in message
    assert world.workflows.admitted == []


async def test_one_that_waits_for_its_canary_is_only_not_ready(world: World) -> None:
    await world.report_card()
    assert (await code(world, "image-upscale"))[1] == "model_not_ready"


async def test_without_any_card_nothing_is_known(world: World) -> None:
    assert (await code(world, GIANT))[1] == "model_not_ready"


@pytest.mark.parametrize(("age", "name"), [("23 hours", "no_capable_card"), ("25 hours", "model_not_ready")])
async def test_a_card_counts_for_a_day_whatever_it_does(world: World, age: str, name: str) -> None:
    await world.report_card()
    async with world.database.transaction() as tx:
        await tx.run(_SILENT, age=age)
    assert (await code(world, GIANT))[1] == name
