"""Clicks: equal bodies under other operation ids, within the window, are one task."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from infra.db import Database, Query
from tests.contract.world import CANVAS, MODEL, User, World, serve, settings_for
from tests.support.eventually import eventually
from tests.support.inprocess import InProcessGenerations
from tests.support.pictures import png
from workflows.contracts.states import Status

WINDOW_S = 60.0
CLICKS = 65
_FREE_TIME = Query("no_guard", "alter table transfer disable trigger transfer_only_grows")
_HOLDS_BACK = Query("holds_back", "update transfer set created_at = created_at - interval '61 seconds'")


@pytest.fixture
async def world(database: Database, conninfo: str, tmp_path: Path) -> AsyncIterator[World]:
    """As every test's, with a window of a minute."""
    workflows = InProcessGenerations(database, in_flight_max=100, duplicate_window_s=WINDOW_S)
    settings = settings_for(tmp_path, conninfo, duplicate_window_s=WINDOW_S, in_flight_max=100)
    async with (
        serve(settings, workflows) as (address, parts),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        world = World(client, parts, database, workflows)
        await world.make_ready()
        await world.cordon()
        yield world


@pytest.fixture
async def user(world: World) -> User:
    """An owner with 1,000 credits."""
    return await world.user()


async def pass_the_window(world: World) -> None:
    """Move all holds back, as if 61 s had passed."""
    async with world.database.transaction() as tx:
        await tx.run(_FREE_TIME)
        await tx.run(_HOLDS_BACK)


async def insist(world: World, user: User, operation_id: str, said: str = "true") -> httpx.Response:
    headers = user.headers(operation_id) | {"X-IC-Allow-Duplicate": said}
    return await world.client.post(
        f"{CANVAS}/images/edits/tasks",
        headers=headers,
        data={"model": MODEL, "scale": "2"},
        files=[("image", ("in.png", png(), "image/png"))],
    )


async def test_clicks_one_after_the_other_are_one_task_and_start_one_workflow(world: World, user: User) -> None:
    answers = [await world.create(user, f"click-{place}") for place in range(CLICKS)]

    first = answers[0].json()
    assert [answer.status_code for answer in answers] == [202] * CLICKS
    assert [answer.json() for answer in answers[1:]] == [first | {"possible_duplicate_of": first["id"]}] * 64
    assert "possible_duplicate_of" not in first
    assert answers[1].headers["x-ic-operation-id"] == "click-1"
    assert len(world.workflows.admitted) == 1
    assert (await world.balance(user)).held == 2


async def test_clicks_at_once_are_one_task(world: World, user: User) -> None:
    answers = await asyncio.gather(*(world.create(user, f"click-{place}") for place in range(CLICKS)))

    assert Counter(answer.status_code for answer in answers) == {202: CLICKS}
    (task_id,) = {answer.json()["id"] for answer in answers}
    assert Counter(answer.json().get("possible_duplicate_of") for answer in answers) == {None: 1, task_id: 64}
    assert (await world.balance(user)).held == 2


async def test_a_click_needs_neither_credits_nor_room_of_its_own(world: World) -> None:
    poor = await world.user("poor", balance=2)
    answers = await asyncio.gather(*(world.create(poor, f"click-{place}") for place in range(8)))
    assert {answer.status_code for answer in answers} == {202}


async def test_who_insists_gets_a_task_of_his_own_also_under_an_answered_id(world: World, user: User) -> None:
    first, other = await world.create(user, "op-1"), await insist(world, user, "op-2")
    click, insisted = await world.create(user, "op-3"), await insist(world, user, "op-3")
    again = await world.create(user, "op-3")

    assert len({answer.json()["id"] for answer in (first, other, insisted)}) == 3
    assert click.json()["possible_duplicate_of"] == first.json()["id"]
    assert again.content == insisted.content
    assert (await world.balance(user)).held == 6


async def test_the_header_says_true_or_false(world: World, user: User) -> None:
    first, same = await world.create(user, "op-1"), await insist(world, user, "op-2", "false")
    refused = await insist(world, user, "op-3", "perhaps")
    assert same.json()["possible_duplicate_of"] == first.json()["id"]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-IC-Allow-Duplicate")


async def test_another_account_another_body_and_a_later_moment_are_no_clicks(world: World, user: User) -> None:
    other = await world.user("grace")
    answers = [
        await world.create(user, "op-1"),
        await world.create(other, "op-2"),
        await world.create(user, "op-3", png(seed=7)),
        await world.create(user, "op-4", scale="4"),
    ]
    await pass_the_window(world)
    answers.append(await world.create(user, "op-5"))

    assert len({answer.json()["id"] for answer in answers}) == 5
    assert [answer for answer in answers if "possible_duplicate_of" in answer.json()] == []


@pytest.mark.parametrize("late", [False, True], ids=["within the window", "after it"])
async def test_an_answered_id_keeps_its_answer(world: World, user: User, *, late: bool) -> None:
    world.workflows.gate.clear()  # so that the second of two is judged by the hold's own transaction
    racing = [asyncio.create_task(world.create(user, name)) for name in ("op-1", "op-2")]
    await eventually(lambda: len(world.workflows.admitted) == 2, what="two admissions at once")
    world.workflows.gate.set()
    clicks = [answer for answer in await asyncio.gather(*racing) if "possible_duplicate_of" in answer.json()]
    clicks.append(await world.create(user, "op-3"))  # and the third by what is read before
    if late:
        await pass_the_window(world)

    for click in clicks:
        again = await world.create(user, click.headers["x-ic-operation-id"])
        assert (again.status_code, again.content) == (202, click.content)
    assert len(clicks) == 2
    assert (await world.balance(user)).held == 2


async def test_an_answered_id_may_be_used_with_another_body(world: World, user: User) -> None:
    first, click = await world.create(user, "op-1"), await world.create(user, "op-2")
    other = await world.create(user, "op-2", png(seed=7))
    assert click.json()["possible_duplicate_of"] == first.json()["id"]
    assert other.status_code == 202
    assert "possible_duplicate_of" not in other.json()


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED, Status.EXPIRED])
async def test_what_gave_nothing_is_no_answer(world: World, user: User, status: Status) -> None:
    first = (await world.create(user, "op-1")).json()
    await world.fail(first["id"], status=status)
    second = (await world.create(user, "op-2")).json()
    assert second["id"] != first["id"]


async def test_a_synchronous_click_is_answered_with_the_same_picture(world: World, user: User) -> None:
    first = (await world.create(user, "op-1")).json()
    await world.complete(user, first["id"])
    part = [("image", ("in.png", png(), "image/png"))]
    click = await world.post_edit(user, "op-2", files=part, path="/images/edits")

    assert click.status_code == 200
    assert click.json()["possible_duplicate_of"] == first["id"]
    assert click.json()["data"][0]["b64_json"]
    assert (await world.balance(user)).spent == 2
