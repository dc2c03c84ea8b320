"""One served API for each test, on a database of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from infra.db import Database
from tests.contract.world import User, World, serve, settings_for
from tests.support.catalogs import VARIANTS, with_variants
from tests.support.inprocess import InProcessGenerations


@pytest.fixture
async def world(database: Database, conninfo: str, tmp_path: Path) -> AsyncIterator[World]:
    """The model is ready, and its card takes no work: what is admitted waits until the test ends it."""
    workflows = InProcessGenerations(database, in_flight_max=3)
    async with (
        serve(settings_for(tmp_path, conninfo), workflows) as (address, parts),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        world = World(client, parts, database, workflows)
        await world.make_ready()
        await world.cordon()
        yield world


@pytest.fixture
async def several(database: Database, conninfo: str, tmp_path: Path) -> AsyncIterator[World]:
    """As `world`, with a model that makes several pictures at once, ready too."""
    workflows = InProcessGenerations(database, in_flight_max=3)
    async with (
        serve(settings_for(tmp_path, conninfo), workflows, models=with_variants(tmp_path)) as (address, parts),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        world = World(client, parts, database, workflows)
        await world.make_ready()
        await world.make_ready(VARIANTS)
        await world.cordon()
        yield world


@pytest.fixture
async def user(world: World) -> User:
    """An owner with 1,000 credits."""
    return await world.user()
