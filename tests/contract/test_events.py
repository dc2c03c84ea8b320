"""Following a task by server-sent events: every event once, resumed where it broke off, its owner's alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from api.canvas import events
from api.core import followers
from infra import generations, leases
from infra.accounts import Role
from infra.db import Query
from infra.generations import doubts
from tests.contract.test_tasks import ABSENT, TASKS, created
from tests.contract.world import CARD, User, World
from tests.support.eventually import eventually
from tests.support.pictures import png
from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts.failures import Code, Failure
from workflows.contracts.hosts import CardReport, HostReport, Running
from workflows.contracts.states import Phase, Status

DROP = Query(
    "drop",
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and query like 'listen%'",
)


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of a stream."""

    name: str
    data: dict[str, Any]
    id: int | None


async def messages(answer: httpx.Response) -> AsyncIterator[Heard]:
    """The messages, until the stream ends."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and "data" in fields:
            event_id = int(fields["id"]) if "id" in fields else None
            yield Heard(fields["event"], json.loads(fields["data"]), event_id)
            fields = {}
        elif not line:
            fields = {}


@asynccontextmanager
async def following(
    world: World, user: User, task_id: str, after: int | None = None
) -> AsyncIterator[AsyncIterator[Heard]]:
    """An open stream."""
    headers = user.headers() | ({"Last-Event-ID": str(after)} if after is not None else {})
    async with world.client.stream("GET", f"{TASKS}/{task_id}/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield messages(answer)


async def states(heard: AsyncIterator[Heard]) -> list[Heard]:
    """All that have an id, to the stream's end."""
    return [one async for one in heard if one.id is not None]


async def until(heard: AsyncIterator[Heard], kind: str) -> Heard:
    """The next state of this kind."""
    async for one in heard:
        if one.data.get("kind") == kind:
            return one
    raise AssertionError(f"the stream ended before {kind}")


async def in_doubt(world: World, task_id: str) -> datetime:
    """Show the outcome as unknown; until when."""
    now = datetime.now(UTC)
    order = g.MarkUnknown(
        task_id=task_id,
        since=now,
        reason="no word from cpu-0's host",
        awaiting="the host: its journal and its engine",
        next_look_at=now + timedelta(seconds=5),
        resolve_by=now + timedelta(hours=1),
    )
    async with world.database.transaction() as tx:
        await generations.mark_unknown(tx, order)
    return order.resolve_by


async def looked(world: World, task_id: str, number: int, finding: e.Finding = e.Finding.NO_WORD) -> None:
    """Record a look at the host."""
    look = e.Look(
        task_id=task_id,
        look_id=f"look-{number}",
        source=e.Source.HOST,
        asked="the journal of /var/lib/host-7",
        finding=finding,
        said="secret of the host",
        lease_id="00000000-0000-0000-0000-000000000000",
        fence=1,
    )
    async with world.database.transaction() as tx:
        await doubts.record_look(tx, look)


async def advance(world: World, task_id: str, phase: Phase) -> None:
    """Take the generation further."""
    async with world.database.transaction() as tx:
        await generations.advance(tx, g.Advance(task_id=task_id, phase=phase))


async def test_a_task_is_told_from_its_hold_to_its_end(world: World, user: User) -> None:
    task_id = await created(world, user)
    async with following(world, user, task_id) as heard:
        assert (await until(heard, "held")).data["credits"] == {"status": "held", "price": 2, "charged": 0}
        await advance(world, task_id, Phase.RUNNING)
        assert (await until(heard, "running")).data["phase"] == "running"
        await world.complete(user, task_id)
        rest = await states(heard)
    assert [one.data["kind"] for one in rest] == ["kept", "settled"]
    assert rest[-1].data["status"] == "completed"
    assert rest[-1].data["credits"] == {"status": "settled", "price": 2, "charged": 2}


async def test_whoever_comes_back_gets_each_event_once(world: World, user: User) -> None:
    task_id = await created(world, user)
    async with following(world, user, task_id) as heard:
        first = await until(heard, "held")
    await advance(world, task_id, Phase.RUNNING)
    async with following(world, user, task_id, after=first.id) as heard:
        second = await until(heard, "running")
    await advance(world, task_id, Phase.INSPECTING)
    await world.complete(user, task_id)
    async with following(world, user, task_id, after=second.id) as heard:
        rest = await states(heard)
    async with following(world, user, task_id) as heard:
        whole = await states(heard)

    assert [first, second, *rest] == whole
    assert sorted({one.id or 0 for one in whole}) == [one.id for one in whole]
    assert [one.data["kind"] for one in whole] == ["held", "running", "inspecting", "kept", "settled"]


async def test_a_task_that_is_over_and_told_ends_a_browsers_reconnecting(world: World, user: User) -> None:
    task_id = await created(world, user)
    await world.complete(user, task_id)
    async with following(world, user, task_id) as heard:
        last = (await states(heard))[-1]
    answer = await world.client.get(
        f"{TASKS}/{task_id}/events", headers=user.headers() | {"Last-Event-ID": str(last.id)}
    )
    assert (answer.status_code, answer.content) == (204, b"")


async def test_an_unknown_outcome_says_what_is_known_of_it(world: World, user: User) -> None:
    task_id = await created(world, user)
    await advance(world, task_id, Phase.RUNNING)
    resolve_by = await in_doubt(world, task_id)
    await looked(world, task_id, 1)
    await looked(world, task_id, 1)  # the same look, told again
    async with following(world, user, task_id) as heard:
        told = await until(heard, "looked")
        assert told.data["credits"]["status"] == "unknown"
        unknown = told.data["unknown"]
        assert (unknown["credits"], unknown["looks"], unknown["raised"]) == (2, 1, False)
        assert unknown["last_evidence"]["said"] == "The card's host gave no answer."
        assert datetime.fromisoformat(unknown["resolve_by"]) == resolve_by
        while True:
            moved = await anext(heard)
            if moved.name == "progress":
                break
        assert set(moved.data) == {"id", "phase", "next_look_at"}

    body = (await world.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()
    assert set(body["unknown"]) == set(unknown)
    assert (body["unknown"]["looks"], body["unknown"]["last_evidence"]) == (1, unknown["last_evidence"])
    assert "secret" not in json.dumps([body, told.data]), "what hosts say is for operators"


async def test_progress_and_place_in_the_queue_are_told_between_events(world: World, user: User) -> None:
    before, task_id = await created(world, user, "op-1"), await created(world, user, "op-2")
    async with following(world, user, task_id) as heard:
        while (moved := await anext(heard)).name != "progress":
            pass
        assert (moved.id, moved.data["queue"]) == (None, {"position": 2, "eta_s": None})
        await world.fail(before)
        while (moved := await anext(heard)).data.get("queue", {}).get("position") != 1:
            pass
        await advance(world, task_id, Phase.RUNNING)
        async with world.database.transaction() as tx:
            await leases.record_report(tx, world_report(Running(task_id=task_id, fence=1, fraction=0.4)))
        while (moved := await anext(heard)).data.get("progress") != 0.4:
            pass
        assert moved.id is None


async def test_nobody_else_learns_of_a_task(world: World, user: User) -> None:
    stranger = await world.user("bob")
    theirs = await created(world, stranger)
    answers = [
        await world.client.get(f"{TASKS}/{task_id}/events", headers=user.headers())
        for task_id in (theirs, ABSENT, "nonsense", "%00")
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert (await world.client.get(f"{TASKS}/{theirs}/events")).status_code == 401


async def test_a_viewer_may_follow(world: World, user: User) -> None:
    viewer = await world.user("vic", account=user.account_id, role=Role.VIEWER)
    task_id = await created(world, user)
    async with following(world, viewer, task_id) as heard:
        assert (await until(heard, "held")).data["id"] == task_id


@pytest.mark.parametrize("said", ["abc", "-1", "1.5", "99999999999999999999"])
async def test_an_id_that_was_never_ours_is_refused(world: World, user: User, said: str) -> None:
    task_id = await created(world, user)
    answer = await world.client.get(f"{TASKS}/{task_id}/events", headers=user.headers() | {"Last-Event-ID": said})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "last-event-id")


async def test_a_listener_that_broke_costs_no_event(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 300.0)  # else the stream itself looks again with its next comment
    task_id = await created(world, user)
    async with following(world, user, task_id) as heard:
        await until(heard, "held")

        async def dropped() -> bool:
            async with world.database.transaction() as tx:
                return bool(await tx.all(DROP))

        await eventually(dropped, what="the listening connection to be cut")
        await advance(world, task_id, Phase.RUNNING)
        await until(heard, "running")


async def test_streams_of_one_account_are_bounded_and_their_places_come_back(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "OF_AN_ACCOUNT_MAX", 1)
    task_id = await created(world, user)
    other = await world.user("bob")
    theirs = await created(world, other)
    async with following(world, user, task_id) as heard:
        await until(heard, "held")
        answer = await world.client.get(f"{TASKS}/{task_id}/events", headers=user.headers())
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
        assert "retry-after" in answer.headers
        async with following(world, other, theirs) as theirs_heard:
            await until(theirs_heard, "held")

    async def free() -> bool:
        answer = await world.client.send(
            world.client.build_request("GET", f"{TASKS}/{task_id}/events", headers=user.headers()), stream=True
        )
        await answer.aclose()
        return answer.status_code == 200

    await eventually(free, what="the place of a stream that was left")


async def test_a_reader_that_does_not_read_makes_nothing_pile_up(world: World, user: User) -> None:
    task_id = await created(world, user)
    await advance(world, task_id, Phase.RUNNING)
    await in_doubt(world, task_id)
    host, port = world.client.base_url.host, world.client.base_url.port
    reader, writer = await asyncio.open_connection(host, port, limit=1024)
    head = "".join(f"{name}: {value}\r\n" for name, value in user.headers().items())
    writer.write(f"GET {TASKS}/{task_id}/events HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
    await writer.drain()
    await eventually(lambda: world.parts.followers.count, what="the stream to open")
    for number in range(200):
        await looked(world, task_id, number)
    async with following(world, user, task_id) as heard:  # beside it, another reader follows at his own pace
        for _ in range(200):
            await until(heard, "looked")
    text = b""
    while text.count(b'"kind":"looked"') < 200:  # and the slow one has lost nothing, once he reads
        text += await reader.read(4096)
    writer.close()


async def test_a_late_result_is_told_and_its_content_served_free_of_charge(world: World, user: User) -> None:
    await world.uncordon()
    task_id = await created(world, user)
    await advance(world, task_id, Phase.RUNNING)
    await in_doubt(world, task_id)
    unknown = Failure(code=Code.OUTCOME_UNKNOWN, message="The outcome stayed unknown; nothing is charged.")
    async with world.database.transaction() as tx:
        await generations.release(
            tx,
            g.Release(
                task_id=task_id,
                status=Status.FAILED,
                failure=unknown,
                lease_id=None,
                actor="manifest:release_unknown",
            ),
        )
    async with following(world, user, task_id) as heard:
        released = (await states(heard))[-1]
    assert (released.data["kind"], released.data["error"]["code"]) == ("released", "outcome_unknown")
    body = (await world.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()
    assert body["status"] == "failed"
    until_then = datetime.fromisoformat(released.data["late"]["until"])
    assert abs(datetime.fromisoformat(body["late"]["until"]) - until_then) < timedelta(seconds=1)
    assert (await world.client.get(f"{TASKS}/{task_id}/content", headers=user.headers())).status_code == 404

    content = png(seed=5)
    await world.keep(user, task_id, content)
    async with world.database.transaction() as tx:
        await doubts.deliver_late(tx, e.LateStep(task_id=task_id))

    async with following(world, user, task_id, after=released.id) as heard:
        late = (await states(heard))[-1]
    assert (late.data["kind"], late.data["status"]) == ("delivered_late", "completed")
    body = (await world.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()
    assert (body["status"], body["credits"]) == ("completed", {"status": "released", "price": 2, "charged": 0})
    assert "late" not in body
    assert "error" not in body
    answer = await world.client.get(f"{TASKS}/{task_id}/content", headers=user.headers())
    assert (answer.content, answer.headers["x-ic-credit-status"]) == (content, "released")
    assert (await world.balance(user)).available == 1_000


def world_report(running: Running) -> HostReport:
    """The card's report of what it runs."""
    card = CardReport(
        card_uuid=CARD,
        label="cpu-0",
        gpu_model="CPU",
        vram_total_mib=4096,
        vram_free_mib=4096,
        engines=("native",),
        capabilities=("image_upscale",),
        boot_id="boot-1",
        running=running,
        settled_fence=0,
    )
    return HostReport(host="test", cards=(card,))
