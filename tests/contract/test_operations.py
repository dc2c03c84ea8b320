"""One operation id, one task: whatever is repeated, at once or later, and whoever else uses the same id."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from api.core import arrival
from infra import ledger
from infra.accounts import Role
from tests.contract.world import CANVAS, User, World
from tests.support.eventually import eventually
from tests.support.pictures import png


async def test_a_creation_answers_with_its_task(world: World, user: User) -> None:
    answer = await world.create(user, "op-1")

    body = answer.json()
    assert answer.status_code == 202
    assert (body["id"][:4], body["status"]) == ("gen_", "pending")
    assert isinstance(body["created"], int)
    assert answer.headers["x-ic-operation-id"] == "op-1"
    assert answer.headers["x-ic-credit-status"] == "held"
    assert answer.headers["x-request-id"]
    assert (await world.balance(user)).held == 2
    assert world.spooled() == []


async def test_two_bodies_at_once_are_one_task_and_one_conflict(world: World, user: User) -> None:
    answers = await asyncio.gather(world.create(user, "op-1", scale="2"), world.create(user, "op-1", scale="4"))

    assert sorted(answer.status_code for answer in answers) == [202, 409]
    conflict = next(answer for answer in answers if answer.status_code == 409)
    assert conflict.json()["error"]["param"] == "scale"
    assert len(await world.stored()) == 1, "the picture that both share stays for the one that was admitted"


async def test_equal_values_are_the_same_body_however_they_are_written(world: World, user: User) -> None:
    first = await world.create(user, "op-1", scale="2")
    again = await world.create(user, "op-1", scale=" 02 ")

    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


async def test_one_header_sent_twice_names_one_operation_or_none(world: World, user: User) -> None:
    files = [("image", ("in.png", png(), "image/png"))]
    data = {"model": "image-upscale", "scale": "2"}
    path = f"{CANVAS}/images/edits/tasks"

    async def sent(*names: str) -> int:
        headers = [*user.headers().items(), *(("X-IC-Operation-ID", name) for name in names)]
        return (await world.client.post(path, headers=headers, data=data, files=files)).status_code

    assert (await sent("op-1", "op-1"), await sent("op-1", "op-2")) == (202, 400)


async def test_both_headers_name_the_operation(world: World, user: User) -> None:
    first = await world.create(user, "op-1")
    files = [("image", ("in.png", png(), "image/png"))]
    data = {"model": "image-upscale", "scale": "2"}
    path = f"{CANVAS}/images/edits/tasks"
    own = user.headers() | {"Idempotency-Key": "op-1"}
    again = await world.client.post(path, headers=own, data=data, files=files)
    torn = await world.client.post(path, headers=own | {"X-IC-Operation-ID": "op-2"}, data=data, files=files)

    assert again.json()["id"] == first.json()["id"]
    assert (torn.status_code, torn.json()["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("operation_id", ["x" * 201, "with space", "tab\there"])
async def test_an_operation_id_has_a_form(world: World, user: User, operation_id: str) -> None:
    answer = await world.create(user, operation_id)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", "X-IC-Operation-ID")
    assert "200" in error["message"]


async def test_another_accounts_same_operation_is_another_task(world: World, user: User) -> None:
    other = await world.user("bob")
    first, second = await world.create(user, "op-1", png(seed=1)), await world.create(other, "op-1", png(seed=2))

    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize("end", ["waiting", "running", "completed", "failed", "retention over"])
async def test_a_repetition_has_the_first_answers_bytes_whatever_became_of_it(
    world: World, user: User, end: str
) -> None:
    if end == "running":
        await world.uncordon()
    first = await world.create(user, "op-1")
    match end:
        case "completed" | "retention over":
            await world.complete(user, first.json()["id"])
        case "failed":
            await world.fail(first.json()["id"])
    if end == "retention over":
        await world.expire_artifacts()
    again = await world.create(user, "op-1")

    assert (again.status_code, again.content) == (202, first.content)
    standing = {"waiting": "held", "running": "held", "failed": "released"}.get(end, "settled")
    assert again.headers["x-ic-credit-status"] == standing, "the header tells where it stands"
    assert len(world.workflows.admitted) == 1


async def test_sixty_four_at_once_are_one_hold_and_one_answer(world: World, user: User) -> None:
    answers = await asyncio.gather(*(world.create(user, "op-1") for _ in range(64)))

    assert {(answer.status_code, answer.content) for answer in answers} == {(202, answers[0].content)}
    assert {answer.headers["x-ic-credit-status"] for answer in answers} == {"held"}
    assert (await world.balance(user)).held == 2


async def test_a_synchronous_repetition_has_the_first_answers_bytes(world: World, user: User) -> None:
    files = [("image", ("in.png", png(), "image/png"))]

    async def sent() -> httpx.Response:
        return await world.post_edit(user, "op-1", files=files, path="/images/edits")

    waiting = asyncio.create_task(sent())
    await eventually(lambda: world.workflows.answers, what="the admission")
    await world.complete(user, world.workflows.admitted[0].task_id)
    first = await waiting
    again = await sent()
    as_task = await world.create(user, "op-1")

    assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
    assert again.json()["created"] == as_task.json()["created"]
    assert (await world.balance(user)).spent == 2


@pytest.mark.parametrize(
    ("changes", "param"),
    [({"scale": "4"}, "scale"), ({"mode": "photo"}, "mode"), ({"picture": "other"}, "image[0]")],
)
@pytest.mark.parametrize("ended", [False, True])
async def test_another_body_is_a_conflict_that_names_its_field_before_and_after_the_end(
    world: World, user: User, changes: dict[str, str], param: str, *, ended: bool
) -> None:
    task_id = (await world.create(user, "op-1")).json()["id"]
    if ended:
        await world.complete(user, task_id)
    fields = {name: value for name, value in changes.items() if name != "picture"}
    answer = await world.create(user, "op-1", png(seed=7) if "picture" in changes else None, **fields)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (409, "operation_conflict", param)
    assert (error["task_id"], error["operation_id"]) == (task_id, "op-1")
    assert f"`{param}`" in error["message"]
    assert (await world.balance(user)).held + (await world.balance(user)).spent == 2


async def test_a_refusal_does_not_use_the_operation_up(world: World) -> None:
    poor = await world.user("poor", balance=1)
    refused = await world.create(poor, "op-1")
    async with world.database.transaction() as tx:
        await ledger.grant(tx, account_id=poor.account_id, credits=9, reason="top-up", actor="test", key="top-up")
    again = await world.create(poor, "op-1")

    assert (refused.status_code, again.status_code) == (402, 202)


async def test_a_refusal_by_the_hold_itself_allows_another_body_and_leaves_no_bytes(
    world: World, user: User
) -> None:
    world.workflows.gate.clear()
    waiting = asyncio.create_task(world.create(user, "op-1", png(seed=1)))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    async with world.database.transaction() as tx:
        await ledger.freeze(tx, account_id=user.account_id, frozen=True, reason="test", actor="operator:test")
    world.workflows.gate.set()
    refused = await waiting
    async with world.database.transaction() as tx:
        await ledger.freeze(tx, account_id=user.account_id, frozen=False, reason="test", actor="operator:test")

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "account_frozen")
    assert await world.stored() == set()
    again = await world.create(user, "op-1", png(seed=2))
    assert again.status_code == 202
    assert [request.attempt for request in world.workflows.admitted] == [1, 2]


async def test_a_viewer_may_look_and_not_create(world: World, user: User) -> None:
    viewer = await world.user("eve", account=user.account_id, role=Role.VIEWER)
    task_id = (await world.create(user, "op-1")).json()["id"]

    created = await world.create(viewer, "op-2")
    canceled = await world.client.post(f"{CANVAS}/images/tasks/{task_id}/cancel", headers=viewer.headers())
    queried = await world.client.post(f"{CANVAS}/images/tasks/{task_id}", headers=viewer.headers(), json={})

    assert (created.status_code, canceled.status_code, queried.status_code) == (403, 403, 200)
    assert created.json()["error"]["code"] == "forbidden"


async def test_too_many_in_flight_is_refused_with_the_limit(world: World, user: User) -> None:
    limit = world.parts.settings.in_flight_max
    assert limit == 3
    for place in range(limit):
        assert (await world.create(user, f"op-{place}")).status_code == 202
    answer = await world.create(user, "one-more")

    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "quota_exceeded")
    assert f"limit of {limit}" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) >= 1


async def test_an_unready_model_is_refused_before_anything_is_held(world: World, user: User) -> None:
    answer = await world.client.get(f"{CANVAS}/models/image-upscale", headers=user.headers())
    assert answer.json()["ready"] is True
    await world.forget_card()
    refused = await world.create(user, "op-1")

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_not_ready")
    assert refused.headers["retry-after"]
    assert (await world.balance(user)).held == 0


async def test_a_slow_body_is_judged_by_what_holds_once_it_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's account is read before the body; here it was topped up while that came."""
    monkeypatch.setattr(arrival, "FRESH_S", 0.0)
    poor = await world.user("poor", balance=0)
    files = [("image", ("in.png", png(), "image/png"))]
    form = httpx.Request("POST", "http://x", data={"model": "image-upscale", "scale": "2"}, files=files)
    body = form.read()

    async def _arrived() -> bool:
        return world.spooled() != []  # its file is being written: the caller was judged

    async def slowly() -> AsyncIterator[bytes]:
        yield body[:-100]
        await eventually(_arrived, what="the body's beginning to be on its way")
        async with world.database.transaction() as tx:
            await ledger.grant(
                tx, account_id=poor.account_id, credits=100, reason="test", actor="test", key="late"
            )
        yield body[-100:]

    headers = poor.headers("op-1") | {"content-type": form.headers["content-type"]}
    path = f"{CANVAS}/images/edits/tasks"
    answer = await world.client.post(path, headers=headers, content=slowly())

    assert answer.status_code == 202, answer.text
    assert world.spooled() == []
