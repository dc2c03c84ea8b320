"""Living with a task: query, cancel, wait, and what a stranger sees of it: nothing."""

import asyncio
import base64
import hashlib
import io
import json

import pytest
from PIL import Image

from tests.contract.world import CANVAS, User, World
from tests.support.eventually import eventually
from tests.support.pictures import png
from workflows.contracts.failures import Code
from workflows.contracts.states import Status

ABSENT = "gen_" + "a" * 26
TASKS = f"{CANVAS}/images/tasks"


async def created(world: World, user: User, operation_id: str = "op-1") -> str:
    """The id of a new task."""
    answer = await world.create(user, operation_id)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_a_query_tells_where_it_stands(world: World, user: User) -> None:
    first, second = await created(world, user, "op-1"), await created(world, user, "op-2")
    answer = await world.client.post(f"{TASKS}/{second}", headers=user.headers(), json={})

    body = answer.json()
    assert answer.status_code == 200
    assert (body["id"], body["status"], body["phase"]) == (second, "pending", "waiting")
    assert body["queue"]["position"] == 2
    assert body["credits"] == {"status": "held", "price": 2, "charged": 0}
    assert answer.headers["x-ic-credit-status"] == "held"
    assert answer.headers["cache-control"] == "no-store"
    assert first != second


async def test_get_on_a_task_names_the_method_that_is_taken(world: World, user: User) -> None:
    answer = await world.client.get(f"{TASKS}/{ABSENT}", headers=user.headers())

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


async def test_a_completed_task_lists_its_results(world: World, user: User) -> None:
    task_id = await created(world, user)
    content = await world.complete(user, task_id)
    body = (await world.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()

    assert (body["status"], body["phase"], body["credits"]["charged"]) == ("completed", "finished", 2)
    (result,) = body["data"]
    assert (result["role"], result["mime"], result["width"], result["height"]) == ("image", "image/png", 128, 96)
    path = "/" + result["url"].split("/", 3)[3]
    assert (await world.client.get(path, headers=user.headers())).content == content


@pytest.mark.parametrize(
    ("code", "status"),
    [(Code.UPSTREAM_FAILED, Status.FAILED), (Code.CANCELED, Status.CANCELED), (Code.EXPIRED, Status.EXPIRED)],
)
async def test_every_end_without_a_result_is_shown_as_failed_with_its_code(
    world: World, user: User, code: Code, status: Status
) -> None:
    task_id = await created(world, user)
    await world.fail(task_id, code, status)
    answer = await world.client.post(f"{TASKS}/{task_id}", headers=user.headers(), json={})

    body = answer.json()
    assert (body["status"], body["error"]["code"]) == ("failed", code.value)
    assert body["error"]["task_id"] == task_id
    assert answer.headers["x-ic-credit-status"] == "released"
    assert "data" not in body


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("POST", "/cancel"), ("GET", "/content?index=0"), ("HEAD", "/content?index=0")],
)
async def test_a_strangers_task_is_as_absent_as_one_that_never_was(
    world: World, user: User, method: str, path: str
) -> None:
    stranger = await world.user("bob")
    theirs = await created(world, stranger)
    await world.complete(stranger, theirs)
    answers = [
        await world.client.request(method, f"{TASKS}/{task_id}{path}", headers=user.headers())
        for task_id in (theirs, ABSENT, "nonsense", "%00", "%F0%9F%98%80", "a" * 5_000)
    ]

    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    volatile = {"x-request-id", "date"}
    assert len({str(sorted((k, v) for k, v in a.headers.items() if k not in volatile)) for a in answers}) == 1


async def test_a_waiting_task_is_canceled_at_once_and_its_hold_released(world: World, user: User) -> None:
    task_id = await created(world, user)
    answer = await world.client.post(f"{TASKS}/{task_id}/cancel", headers=user.headers(), json={"reason": "mine"})

    assert answer.json() == {
        "id": task_id,
        "status": "canceled",
        "credits": {"status": "released", "price": 2, "charged": 0, "released": 2},
        "delivered": 0,
    }
    assert answer.headers["x-ic-credit-status"] == "released"
    assert (await world.balance(user)).held == 0
    record = await world.record(user, task_id)
    assert record.cancel is not None
    assert (record.cancel.reason, record.cancel.actor) == ("mine", f"member:{user.member_id}")
    again = await world.client.post(f"{TASKS}/{task_id}/cancel", headers=user.headers())
    assert again.json()["status"] == "canceled"


@pytest.mark.parametrize("reason", [r"\u0000", r"mine \ud800"])
async def test_a_reason_that_cannot_be_recorded_is_refused(world: World, user: User, reason: str) -> None:
    task_id = await created(world, user)
    headers = user.headers() | {"Content-Type": "application/json"}
    body = f'{{"reason": "{reason}"}}'
    answer = await world.client.post(f"{TASKS}/{task_id}/cancel", headers=headers, content=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert (await world.balance(user)).held == 2


async def test_a_cancel_of_a_task_whose_workflow_is_lost_is_kept_for_the_sweep(world: World, user: User) -> None:
    task_id = await created(world, user)
    world.workflows.lost = True
    answer = await world.client.post(f"{TASKS}/{task_id}/cancel", headers=user.headers(), json={"reason": "mine"})

    assert answer.json() == {
        "id": task_id,
        "status": "cancel_requested",
        "credits": {"status": "held", "price": 2, "charged": 0, "released": 0},
        "delivered": 0,
    }
    assert answer.headers["x-ic-credit-status"] == "held"
    record = await world.record(user, task_id)
    assert record.cancel is not None
    assert record.cancel.reason == "mine"


async def test_a_finished_task_is_not_cancellable(world: World, user: User) -> None:
    task_id = await created(world, user)
    await world.complete(user, task_id)
    answer = await world.client.post(f"{TASKS}/{task_id}/cancel", headers=user.headers())

    assert answer.json()["status"] == "not_cancellable"
    assert answer.json()["credits"] == {"status": "settled", "price": 2, "charged": 2, "released": 0}
    assert answer.json()["delivered"] == 1
    assert answer.headers["x-ic-credit-status"] == "settled"


async def test_a_synchronous_creation_waits_and_carries_the_picture(world: World, user: User) -> None:
    part = [("image", ("in.png", png(), "image/png"))]
    call = asyncio.create_task(world.post_edit(user, "op-1", files=part, path="/images/edits"))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    task_id = world.workflows.admitted[0].task_id
    await until_it_exists(world, user, task_id)
    content = await world.complete(user, task_id, png(200, 150, seed=7))
    answer = await call

    assert answer.status_code == 200
    body = json.loads(answer.content)
    assert set(body) == {"created", "data", "credits"}
    assert body["credits"] == {"status": "settled", "price": 2, "charged": 2}
    assert base64.b64decode(body["data"][0]["b64_json"], validate=True) == content
    assert Image.open(io.BytesIO(content)).size == (200, 150)
    assert answer.headers["x-ic-credit-status"] == "settled"
    again = await world.post_edit(user, "op-1", files=part, path="/images/edits")
    assert hashlib.sha256(again.content).digest() == hashlib.sha256(answer.content).digest()


async def test_a_synchronous_creation_that_fails_says_why_and_that_it_cost_nothing(
    world: World, user: User
) -> None:
    part = [("image", ("in.png", png(), "image/png"))]
    call = asyncio.create_task(world.post_edit(user, "op-1", files=part, path="/images/edits"))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    task_id = world.workflows.admitted[0].task_id
    await until_it_exists(world, user, task_id)
    await world.fail(task_id)
    answer = await call

    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_failed")
    assert answer.headers["x-ic-credit-status"] == "released"


async def test_a_wait_that_ends_first_gives_the_ids_and_loses_nothing(world: World, user: User) -> None:
    part = [("image", ("in.png", png(), "image/png"))]
    answer = await world.post_edit(user, "op-1", files=part, path="/images/edits")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (504, "gateway_timeout")
    assert error["operation_id"] == "op-1"
    assert answer.headers["x-ic-credit-status"] == "held"
    content = await world.complete(user, error["task_id"])
    again = await world.post_edit(user, "op-1", files=part, path="/images/edits")
    assert base64.b64decode(again.json()["data"][0]["b64_json"]) == content


async def until_it_exists(world: World, user: User, task_id: str) -> None:
    """Until a query finds the generation."""

    async def probe() -> bool:
        answer = await world.client.post(f"{TASKS}/{task_id}", headers=user.headers(), json={})
        return answer.status_code == 200

    await eventually(probe, what="the generation")
