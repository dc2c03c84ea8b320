"""`GET …/events`: what happens to a task, as server-sent events.

Each event of the task is told once, with its id; whoever comes back with `Last-Event-ID` gets those behind it,
none twice and none left out. What moves between two events (progress, the place in the queue, the next look) is
told as it is now, without an id. The stream ends after the event that ends the task.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from api import present
from api.auth.caller import Authenticated
from api.canvas import PREFIX
from api.core import tasks
from api.core.followers import Follower, Followers
from api.core.tale import Tale
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import Parts, parts_of
from api.wire import leaving_of
from infra.db import DatabaseTrouble
from infra.generations import following
from infra.generations.following import Event, Pulse
from workflows.contracts.failures import Code
from workflows.contracts.states import Phase

log = structlog.get_logger(__name__)
router = APIRouter(prefix=f"{PREFIX}/images/tasks")

HEARTBEAT_S = 15.0
"""A comment so often; proxies cut what is silent for 30 to 60 s."""
STREAM_S_MAX = 900.0
"""Then a stream ends and its client comes back, and is asked anew who it is."""
SEND_S_MAX = 30.0
"""Who doesn't take a message for so long is gone, or too slow to follow anything."""
RETRY_MS = 2000
EVENT_ID_MAX = 2**63 - 1


@router.get("/{task_id}/events")
async def events(request: Request, caller: Authenticated, task_id: str) -> Response:
    """Follow the task; 204, which ends a browser's reconnecting, when it is over and nothing is left to tell."""
    parts = parts_of(request)
    after = _last_event_id(request)
    record = await tasks.find(parts, caller, task_id)
    follower = parts.followers.join(record.task_id, record.account_id)
    try:
        async with answer_within(READ):
            await parts.followers.watch(follower)
        tale = Tale(record)
        told = [one for one in await _read(parts, tale, follower) if one[0].id > after]
    except BaseException:  # whatever ended it, also a client that left: its place is given back
        parts.followers.leave(follower)
        raise
    if tale.over and not told:
        parts.followers.leave(follower)
        return Response(status_code=204, headers=present.headers(record))
    messages = _messages(parts, tale, follower, told)
    return EventStream(messages, parts.followers, follower, headers=present.headers(record))


class EventStream(Response):
    """Messages as they come. It asks for the next one only when the client took the last: nothing piles up."""

    media_type = "text/event-stream"

    def __init__(
        self,
        messages: AsyncIterator[bytes],
        followers: Followers,
        follower: Follower,
        *,
        headers: dict[str, str],
    ) -> None:
        """`follower` leaves with the stream's end, whichever it is."""
        super().__init__(headers=headers | {"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._messages = messages
        self._followers = followers
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the last message, until the client is gone, or until this process is told to leave."""
        pour = asyncio.create_task(self._pour(send))
        ends = [asyncio.create_task(_gone(receive)), asyncio.create_task(leaving_of(scope).wait())]
        try:
            await asyncio.wait([pour, *ends], return_when=asyncio.FIRST_COMPLETED)
            left = not pour.done() and not ends[0].done()
        finally:
            for task in (pour, *ends):
                task.cancel()
            await asyncio.gather(pour, *ends, return_exceptions=True)
            self._followers.leave(self._follower)
        if not pour.cancelled():
            pour.result()
        if left:  # the client comes back, and finds another process
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pour(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        async for message in self._messages:
            try:
                async with asyncio.timeout(SEND_S_MAX):
                    await send({"type": "http.response.body", "body": message, "more_body": True})
            except TimeoutError:
                log.info("stream_cut", task_id=self._follower.task_id)
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _messages(
    parts: Parts, tale: Tale, follower: Follower, told: list[tuple[Event, dict[str, Any]]]
) -> AsyncIterator[bytes]:
    ends_at = time.monotonic() + STREAM_S_MAX
    moved: dict[str, Any] | None = None
    yield f"retry: {RETRY_MS}\n\n".encode()
    while True:
        for event, what in told:
            yield _message("state", what, event.id)
        if tale.over or time.monotonic() > ends_at:
            return
        pulse = follower.pulse
        if pulse is not None and pulse.open and _between(pulse) != moved:
            moved = _between(pulse)
            yield _message("progress", {"id": follower.task_id} | moved)
        if not await follower.wait(HEARTBEAT_S):
            yield b": still following\n\n"
        told = await _read_again(parts, tale, follower)


async def _read(parts: Parts, tale: Tale, follower: Follower) -> list[tuple[Event, dict[str, Any]]]:
    async with answer_within(READ), parts.database.read() as reader:
        found = await following.events(reader, follower.task_id, after=tale.last)
    told = [(event, tale.add(event)) for event in found]
    follower.seen = tale.last
    return [(event, what) for event, what in told if what is not None]


async def _read_again(parts: Parts, tale: Tale, follower: Follower) -> list[tuple[Event, dict[str, Any]]]:
    """As `_read`; a database that is away for a while is waited for, since nothing of what happens is lost."""
    try:
        return await _read(parts, tale, follower)
    except (DatabaseTrouble, ApiError):
        return []


def _between(pulse: Pulse) -> dict[str, Any]:
    """What moves without an event."""
    shown: dict[str, Any] = {"phase": pulse.phase.value}
    if pulse.phase is Phase.RUNNING and pulse.fraction is not None:
        shown["progress"] = present.progress(pulse.fraction)
    if pulse.queue_ahead is not None:
        shown["queue"] = {"position": pulse.queue_ahead + 1, "eta_s": None}
    if pulse.phase is Phase.RECONCILING and pulse.next_look_at is not None:
        shown["next_look_at"] = pulse.next_look_at.isoformat()
    return shown


def _message(name: str, what: dict[str, Any], event_id: int | None = None) -> bytes:
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(what, separators=(',', ':'))}\n\n".encode()


def _last_event_id(request: Request) -> int:
    """Behind which event to begin; 0 tells all.

    Raises:
        ApiError: 400, it was never an id of ours.
    """
    said = request.headers.get("last-event-id", "").strip()
    if not said:
        return 0
    if not (said.isascii() and said.isdigit()) or int(said) > EVENT_ID_MAX:
        raise refuse(Code.INVALID_REQUEST, "`Last-Event-ID` is the id of an event.", param="last-event-id")
    return int(said)
