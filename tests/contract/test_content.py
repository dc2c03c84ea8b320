"""A result's bytes: ranges, conditions, and never before the credits are settled."""

import hashlib

import pytest

from tests.contract.world import CANVAS, User, World
from tests.support.pictures import png

CONTENT = png(200, 150, seed=5)
ETAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'


@pytest.fixture
async def path(world: World, user: User) -> str:
    """Where a completed task's content is."""
    task_id = (await world.create(user, "op-1")).json()["id"]
    await world.complete(user, task_id, CONTENT)
    return f"{CANVAS}/images/tasks/{task_id}/content?index=0"


async def test_the_whole(world: World, user: User, path: str) -> None:
    answer = await world.client.get(path, headers=user.headers())

    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["etag"] == ETAG
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-disposition"].startswith('inline; filename="gen_')
    assert answer.headers["content-disposition"].endswith('-0.png"')
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["x-ic-credit-status"] == "settled"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_head_says_the_same_without_the_bytes(world: World, user: User, path: str) -> None:
    whole = await world.client.get(path, headers=user.headers())
    head = await world.client.head(path, headers=user.headers())

    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "content-disposition"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-99", 0, 100),
        ("bytes=100-", 100, len(CONTENT)),
        ("bytes=-50", len(CONTENT) - 50, len(CONTENT)),
        ("bytes=0-0", 0, 1),
        (f"bytes=10-{len(CONTENT) * 9}", 10, len(CONTENT)),
        (f"bytes=-{len(CONTENT) * 9}", 0, len(CONTENT)),
    ],
)
async def test_a_range(world: World, user: User, path: str, asked: str, start: int, end: int) -> None:
    answer = await world.client.get(path, headers=user.headers() | {"Range": asked})

    assert (answer.status_code, answer.content) == (206, CONTENT[start:end])
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(end - start)


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,5-9", "bytes=5-2", "lines=1-2", "bytes=a-b", "bytes=-", "bytes=1-2-3"]
)
async def test_a_range_that_makes_no_sense_or_several_give_the_whole(
    world: World, user: User, path: str, asked: str
) -> None:
    answer = await world.client.get(path, headers=user.headers() | {"Range": asked})

    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize("asked", [f"bytes={len(CONTENT)}-", "bytes=-0"])
async def test_a_range_outside_is_refused_with_the_size(world: World, user: User, path: str, asked: str) -> None:
    answer = await world.client.get(path, headers=user.headers() | {"Range": asked})

    assert (answer.status_code, answer.json()["error"]["code"]) == (416, "range_not_satisfiable")
    assert (answer.headers["x-ic-operation-id"], answer.headers["x-ic-credit-status"]) == ("op-1", "settled")
    assert answer.headers["content-range"] == f"bytes */{len(CONTENT)}"


async def test_conditions(world: World, user: User, path: str) -> None:
    async def status(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await world.client.get(path, headers=user.headers() | named)).status_code

    assert await status(If_None_Match=ETAG) == 304
    assert await status(If_None_Match=f'"other", W/{ETAG}') == 304
    assert await status(If_None_Match='"other"') == 200
    assert await status(Range="bytes=0-9", If_Range=ETAG) == 206
    assert await status(Range="bytes=0-9", If_Range='"other"') == 200
    assert await status(Range="bytes=0-9", If_Range="Tue, 01 Dec 2026 12:00:00 GMT") == 200


async def test_not_before_the_end(world: World, user: User) -> None:
    task_id = (await world.create(user, "op-1")).json()["id"]
    answer = await world.client.get(f"{CANVAS}/images/tasks/{task_id}/content", headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "task_not_finished")
    assert answer.headers["x-ic-credit-status"] == "held"
    assert answer.headers["retry-after"]


async def test_kept_but_not_settled_is_not_served(world: World, user: User) -> None:
    task_id = (await world.create(user, "op-1")).json()["id"]
    await world.keep(user, task_id, CONTENT)
    answer = await world.client.get(f"{CANVAS}/images/tasks/{task_id}/content", headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "task_not_finished")


async def test_a_failed_task_has_no_content(world: World, user: User) -> None:
    task_id = (await world.create(user, "op-1")).json()["id"]
    await world.fail(task_id)
    answer = await world.client.get(f"{CANVAS}/images/tasks/{task_id}/content", headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "resource_not_found")


@pytest.mark.parametrize(("index", "status"), [("1", 404), ("-1", 400), ("x", 400), ("9" * 30, 400)])
async def test_an_index_that_is_not_there(world: World, user: User, path: str, index: str, status: int) -> None:
    answer = await world.client.get(path.replace("index=0", f"index={index}"), headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, "index")


async def test_after_retention_it_is_gone_and_says_since_when(world: World, user: User, path: str) -> None:
    await world.expire_artifacts()
    answer = await world.client.get(path, headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "content_expired")


async def test_bytes_that_are_not_whole_are_never_served_as_if_they_were(
    world: World, user: User, path: str
) -> None:
    (stored,) = world.parts.settings.home.glob(f"store/blobs/*/*/{ETAG.strip(chr(34))}")
    stored.write_bytes(CONTENT[:-1])
    cut = await world.client.get(path, headers=user.headers())
    stored.unlink()
    gone = await world.client.get(path, headers=user.headers())

    assert {cut.status_code, gone.status_code} == {500}
    assert {cut.json()["error"]["code"], gone.json()["error"]["code"]} == {"internal_error"}
    assert str(world.parts.settings.home) not in cut.text + gone.text
