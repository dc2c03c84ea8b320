"""The partner surface: the canvas' behaviour for programs with keys; neither takes the other's proof."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import APIRouter
from starlette.routing import Route

from api.app import ROUTERS
from api.partner.routes import router
from infra.accounts.keys import Scope
from infra.db import Query
from tests.contract.partner import PARTNER, Program, program
from tests.contract.world import CANVAS, User, World
from tests.support.eventually import eventually
from tests.support.pictures import png

_FACTS = Query("facts", "select key_id, made_by from generation where operation_id = 'op-1'")


@pytest.fixture
async def shop(world: World, user: User) -> Program:
    """A program with every scope."""
    return await program(world, user)


async def test_a_program_creates_follows_and_fetches_as_a_member_does(
    world: World, user: User, shop: Program
) -> None:
    created = await shop.create("op-1")
    task_id = created.json()["id"]
    content = await world.complete(user, task_id)
    got = await shop.get(f"/images/tasks/{task_id}")
    posted = await world.client.post(f"{PARTNER}/images/tasks/{task_id}", headers=shop.headers(), json={})

    assert (created.status_code, created.headers["x-ic-credit-status"]) == (202, "held")
    assert (got.status_code, got.content) == (200, posted.content)
    (result,) = got.json()["data"]
    path = "/" + result["url"].split("/", 3)[3]
    assert path.startswith(f"{PARTNER}/images/tasks/{task_id}/content")
    assert (await world.client.get(path, headers=shop.headers())).content == content
    async with world.database.read() as reader:
        row = await reader.one(_FACTS)
    assert row == {"key_id": shop.key.id, "made_by": f"key:{shop.key.id}"}


async def test_a_member_and_a_program_share_the_accounts_operations(
    world: World, user: User, shop: Program
) -> None:
    by_program, by_member = await shop.create("op-1"), await world.create(user, "op-1")

    assert (by_program.status_code, by_member.status_code) == (202, 202)
    assert by_program.content == by_member.content
    assert (await world.balance(user)).held == 2


def _found(one: APIRouter, prefix: str) -> set[tuple[str, str, object]]:
    """Path behind the prefix, method and handler of every route."""
    routes = [route for route in one.routes if isinstance(route, Route)]
    assert len(routes) == len(one.routes)
    return {
        (route.path.removeprefix(prefix), method, route.endpoint)
        for route in routes
        for method in route.methods or ()
    }


def test_every_route_of_the_canvas_is_at_the_partners_prefix_too() -> None:
    """Also of a router that somebody adds to the app and forgets to mirror."""
    everything = {found for one in ROUTERS for found in _found(one, "")}
    canvas = {
        (path.removeprefix(CANVAS), method, handler)
        for path, method, handler in everything
        if path.startswith(CANVAS)
    }
    partner = _found(router, PARTNER)
    assert canvas - partner == set()
    assert {(path, method) for path, method, _ in partner - canvas} == {("/images/tasks/{task_id}", "GET")}


async def test_models_and_quotes_are_there(world: World, shop: Program) -> None:
    models_seen = await shop.get("/models")
    body = {"model": "image-upscale", "scale": 2, "images": [{"width": 64, "height": 48}]}
    quote = await world.client.post(f"{PARTNER}/quotes", headers=shop.headers(), json=body)

    assert models_seen.json()["data"][0]["id"] == "image-upscale"
    assert (quote.status_code, quote.json()["price"]) == (200, 2)


async def test_neither_surface_takes_the_others_proof(world: World, user: User, shop: Program) -> None:
    by_session = await world.client.get(f"{PARTNER}/models", headers=user.headers())
    by_cookie = await world.client.get(f"{PARTNER}/models", headers={"Cookie": f"holdfast_session={user.token}"})
    by_key = await world.client.get(f"{CANVAS}/models", headers=shop.headers())
    created = await world.client.post(
        f"{CANVAS}/images/edits/tasks",
        headers=shop.headers("op-1"),
        data={"model": "image-upscale"},
        files=[("image", ("in.png", png(), "image/png"))],
    )

    found = [answer.status_code for answer in (by_session, by_cookie, by_key, created)]
    assert found == [401] * 4
    assert by_session.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("change", ["id", "secret", "case", "prefix", "more", "nothing"])
async def test_a_key_that_is_not_quite_right_is_no_key(world: World, shop: Program, change: str) -> None:
    _, part, secret = shop.token.split("_", 2)
    tokens = {
        "id": f"hf_{'0' * 12}_{secret}",
        "secret": f"hf_{part}_{'x' if secret[0] != 'x' else 'y'}{secret[1:]}",
        "case": f"hf_{part}_{secret.swapcase()}",
        "prefix": f"sk_{part}_{secret}",
        "more": shop.token + "x",
        "nothing": "hf_",
    }
    answer = await world.client.get(f"{PARTNER}/models", headers={"Authorization": f"Bearer {tokens[change]}"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert shop.token not in answer.text


async def test_a_revoked_key_is_of_no_use_and_what_it_began_goes_on(
    world: World, user: User, shop: Program
) -> None:
    task_id = (await shop.create("op-1")).json()["id"]
    assert [await shop.revoke(), await shop.revoke()] == [True, False]

    assert (await shop.get(f"/images/tasks/{task_id}")).status_code == 401
    assert (await shop.create("op-2")).status_code == 401
    await world.complete(user, task_id)
    assert (await world.balance(user)).spent == 2


async def test_a_key_that_is_revoked_between_look_and_hold_holds_nothing(
    world: World, user: User, shop: Program
) -> None:
    world.workflows.gate.clear()
    waiting = asyncio.create_task(shop.create("op-1"))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    await shop.revoke()
    world.workflows.gate.set()
    answer = await waiting

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert (await world.balance(user)).held == 0


async def test_a_key_ends_at_its_date(world: World, user: User) -> None:
    late = await program(world, user, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    good = await program(world, user, expires_at=datetime.now(UTC) + timedelta(hours=1))

    assert (await late.get("/models")).status_code == 401
    assert (await late.create("op-1")).status_code == 401
    assert (await good.get("/models")).status_code == 200


@pytest.mark.parametrize(
    ("scope", "allowed"), [(Scope.GENERATE, "create"), (Scope.READ, "query"), (Scope.CREDITS, "balance")]
)
async def test_a_key_does_what_its_scopes_say_and_no_more(
    world: World, user: User, scope: Scope, allowed: str
) -> None:
    one = await program(world, user, scopes=[scope])
    task_id = (await world.create(user, "op-0")).json()["id"]
    answers = {
        "create": (await one.create("op-1")).status_code,
        "query": (await one.get(f"/images/tasks/{task_id}")).status_code,
        "balance": (await one.get("/credits")).status_code,
    }
    canceled = await world.client.post(f"{PARTNER}/images/tasks/{task_id}/cancel", headers=one.headers())

    assert {name for name, status in answers.items() if status < 300} == {allowed}
    assert {status for name, status in answers.items() if name != allowed} == {403}
    assert (canceled.status_code == 200) == (scope is Scope.GENERATE)
    refused = await one.get("/credits" if scope is not Scope.CREDITS else "/models")
    assert "scope" in refused.json()["error"]["message"]


async def test_a_key_is_used_from_its_networks_only(world: World, user: User) -> None:
    here = await program(world, user, networks=["127.0.0.0/8"])
    elsewhere = await program(world, user, networks=["10.0.0.0/8", "2001:db8::/32"])
    lied = await elsewhere.get("/models", **{"X-Forwarded-For": "10.1.2.3"})

    assert (await here.get("/models")).status_code == 200
    assert [(await elsewhere.get("/models")).status_code, lied.status_code] == [403, 403]
    assert (await elsewhere.create("op-1")).status_code == 403
    assert "127.0.0.1" not in lied.text


async def test_the_two_names_of_an_operation_id_agree_or_are_refused(world: World, shop: Program) -> None:
    files = [("image", ("in.png", png(), "image/png"))]
    data = {"model": "image-upscale", "scale": "2"}

    async def sent(**headers: str) -> int:
        named = shop.headers() | {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"{PARTNER}/images/edits/tasks"
        return (await world.client.post(path, headers=named, data=data, files=files)).status_code

    assert await sent(Idempotency_Key="op-1", X_IC_Operation_ID="op-1") == 202
    assert await sent(Idempotency_Key="op-1", X_IC_Operation_ID="op-2") == 400
    assert await sent() == 400


async def test_another_accounts_key_sees_nothing(world: World, user: User, shop: Program) -> None:
    stranger = await program(world, await world.user("bob"))
    task_id = (await shop.create("op-1")).json()["id"]
    strange, absent = await stranger.get(f"/images/tasks/{task_id}"), await stranger.get("/images/tasks/gen_x")

    assert (strange.status_code, strange.content) == (404, absent.content)
