"""When a part is away: an answer in time with a stated code, nothing held later, and recovery by itself."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from api.core.gateway import TemporalGenerations
from infra import generations
from tests.contract.world import CANVAS, User, World, serve, settings_for
from tests.support.eventually import eventually
from tests.support.frozen import freezable
from tests.support.pictures import png
from tests.support.postgres import PostgresServer
from workflows.contracts.failures import Code


@pytest.fixture
async def headless(world: World, tmp_path: Path) -> AsyncIterator[World]:
    """The same world, seen through an API whose database is nowhere."""
    settings = settings_for(tmp_path / "headless", f"postgresql:///x?host={tmp_path}/none")
    async with (
        serve(settings, world.workflows) as (address, parts),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield replace(world, client=client, parts=parts)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{CANVAS}/images/tasks/gen_x"),
        ("POST", f"{CANVAS}/images/tasks/gen_x/cancel"),
        ("GET", f"{CANVAS}/images/tasks/gen_x/content"),
        ("GET", f"{CANVAS}/models"),
        ("POST", f"{CANVAS}/images/edits/tasks"),
    ],
)
async def test_without_postgres_every_call_says_so(headless: World, user: User, method: str, path: str) -> None:
    answer = await headless.client.request(method, path, headers=user.headers("op-1"))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (503, "service_unavailable", True)
    assert int(answer.headers["retry-after"]) >= 1
    assert "database" in error["message"]


async def test_a_frozen_postgres_keeps_no_caller_longer_than_an_absent_one(
    world: World, user: User, conninfo: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a socket's path has 107 bytes at most; tmp_path may be longer
        async with (
            freezable(conninfo, Path(folder)) as (way, flows),
            serve(settings_for(Path(folder), way), world.workflows) as (address, _),
            httpx.AsyncClient(base_url=address, timeout=8) as client,
        ):
            through = replace(world, client=client)
            assert (await through.create(user, "op-1")).status_code == 202
            flows.clear()
            answer = await through.create(user, "op-2")
            flows.set()

            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")

            async def recovered() -> bool:
                return (await through.create(user, "op-2")).status_code == 202

            await eventually(recovered)


async def test_without_postgres_the_process_lives_and_is_not_ready(headless: World) -> None:
    assert (await headless.client.get("/live")).status_code == 200
    ready = await headless.client.get("/ready")
    assert (ready.status_code, ready.json()["missing"]) == (503, ["database"])
    health = await headless.client.get("/health")
    assert health.json()["models"] == [{"id": "image-upscale", "ready": False, "missing": ["database"]}]


async def test_a_stranger_is_told_to_log_in_even_then(headless: World) -> None:
    answer = await headless.client.get(f"{CANVAS}/models")

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


@pytest.mark.slow
async def test_it_recovers_when_postgres_comes_back(postgres: PostgresServer, world: World, user: User) -> None:
    path = f"{CANVAS}/models/image-upscale"
    postgres.kill()
    try:
        away = await world.client.get(path, headers=user.headers())
    finally:
        postgres.start()
    assert (away.status_code, away.json()["error"]["code"]) == (503, "service_unavailable")

    async def answers() -> bool:
        return (await world.client.get(path, headers=user.headers())).status_code == 200

    await eventually(answers, what="the recovery")


async def test_without_temporal_nothing_is_held_and_the_same_operation_works_later(
    world: World, user: User
) -> None:
    world.workflows.away = True
    answer = await world.create(user, "op-1")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "service_unavailable")
    assert (error["operation_id"], error["retryable"]) == ("op-1", True)
    assert error["task_id"].startswith("gen_")
    assert answer.headers["retry-after"]
    assert (await world.balance(user)).held == 0
    world.workflows.away = False
    assert (await world.create(user, "op-1")).status_code == 202


async def test_without_an_orchestrator_the_caller_gets_the_ids_in_time(world: World, user: User) -> None:
    world.workflows.silent = True
    answer = await world.create(user, "op-1")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (504, "gateway_timeout")
    assert (error["operation_id"], error["task_id"]) == ("op-1", world.workflows.admitted[0].task_id)
    request = world.workflows.admitted[0]
    assert (request.admit_by - request.created_at).total_seconds() == 3
    async with world.database.transaction() as tx:  # an orchestrator that comes back only now
        late = await generations.admit(tx, request)
    assert late.refusal is not None
    assert late.refusal.code is Code.ADMISSION_LAPSED
    assert (await world.balance(user)).held == 0


async def test_a_hold_whose_answer_was_lost_is_found_at_once(world: World, user: User) -> None:
    world.workflows.lose_answer = True
    answer = await world.create(user, "op-1")

    assert (answer.status_code, answer.headers["x-ic-credit-status"]) == (202, "held")


async def test_a_cancel_without_temporal_says_that_it_was_not_asked(world: World, user: User) -> None:
    task_id = (await world.create(user, "op-1")).json()["id"]
    world.workflows.away = True
    answer = await world.client.post(f"{CANVAS}/images/tasks/{task_id}/cancel", headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert (await world.balance(user)).held == 2


async def test_a_client_that_goes_away_during_the_admission_loses_nothing(world: World, user: User) -> None:
    world.workflows.gate.clear()
    call = asyncio.create_task(world.create(user, "op-1", png()))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    world.workflows.gate.set()
    answer = await world.create(user, "op-1", png())

    assert answer.status_code == 202
    assert (await world.balance(user)).held == 2
    assert len(await world.stored()) == 1


async def test_the_real_workflow_server_away_is_told_in_time(
    world: World, user: User, conninfo: str, tmp_path: Path
) -> None:
    with socket.socket() as unanswered:  # bound and not listening: every connection is refused
        unanswered.bind(("127.0.0.1", 0))
        settings = settings_for(
            tmp_path / "real", conninfo, temporal_address=f"127.0.0.1:{unanswered.getsockname()[1]}"
        )
        async with (
            serve(settings, TemporalGenerations(settings)) as (address, parts),
            httpx.AsyncClient(base_url=address, timeout=5) as client,
        ):
            cut_off = replace(world, client=client, parts=parts)
            answer = await cut_off.create(user, "op-1")
            ready = await client.get("/ready")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert ready.json()["missing"] == ["workflow server"]
    assert (await world.balance(user)).held == 0
