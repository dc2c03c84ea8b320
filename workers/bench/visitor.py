"""An ordinary client of the canvas surface, with an account of its own that is frozen afterwards."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from infra import accounts, ledger
from infra.accounts import Role
from infra.db import Database, DatabaseAway
from infra.ledger import AccountKind
from workers.bench.awaiting import eventually
from workers.bench.wire import Wire

PREFIX = "/api/proxy/v1"
MODEL = "image-upscale"
ANSWER_S = 30
DATABASE_S = 30
"""A new pool's first connection may take longer than the second that a caller usually gives it."""
LOOK_EACH_S = 0.05
OK, ACCEPTED = 200, 202


class UnexpectedAnswer(Exception):
    """The platform answered otherwise than a healthy one does."""


@dataclass(frozen=True, slots=True)
class Created:
    """A creation that was accepted.

    Attributes:
        task_id: The task.
        asked_at: Unix seconds right before the request.
        seconds: Request to answer.
    """

    task_id: str
    asked_at: float
    seconds: float


class Visitor:
    """Creates, waits, fetches, as any client would."""

    def __init__(self, client: httpx.AsyncClient, wire: Wire, account_id: str) -> None:
        """Use a client that carries a session, and the wire for what is timed."""
        self._client = client
        self._wire = wire
        self.account_id = account_id

    async def create(self, picture: bytes, *, operation_id: str | None = None, **fields: str) -> Created:
        """Ask for an enlargement; answers once the platform accepted it.

        Raises:
            UnexpectedAnswer: It did not.
        """
        headers = {
            "X-IC-Operation-ID": operation_id or f"bench-{secrets.token_hex(8)}",
            "X-IC-Allow-Duplicate": "true",  # a picture is sent again and again on purpose
        }
        data = {"model": MODEL, "scale": "2", **fields}
        files = {"image": ("picture.png", picture, "image/png")}
        request = self._client.build_request(
            "POST", f"{PREFIX}/images/edits/tasks", headers=headers, data=data, files=files
        )
        await request.aread()  # making the form is the caller's work and not the platform's
        answered = await self._wire.send(request)
        return Created(_checked(answered.response, ACCEPTED)["id"], answered.asked_at, answered.seconds)

    async def look(self, task_id: str) -> dict[str, Any]:
        """The task as its owner sees it."""
        return _checked(await self._client.post(f"{PREFIX}/images/tasks/{task_id}", json={}), OK)

    async def finish(self, task_id: str, *, within_s: float, each_s: float = LOOK_EACH_S) -> dict[str, Any]:
        """Wait for the task's end, asking every `each_s` seconds.

        Raises:
            TimeoutError: It did not end in time.
        """
        async with asyncio.timeout(within_s):
            while True:
                task = await self.look(task_id)
                if task["status"] != "pending":
                    return task
                await asyncio.sleep(each_s)

    async def complete(self, task_id: str, *, within_s: float, each_s: float = LOOK_EACH_S) -> dict[str, Any]:
        """Wait for the task's good end, asking every `each_s` seconds.

        Raises:
            UnexpectedAnswer: It ended otherwise.
        """
        task = await self.finish(task_id, within_s=within_s, each_s=each_s)
        if task["status"] != "completed":
            raise UnexpectedAnswer(f"{task_id} ended {task['status']}: {task.get('error')}")
        return task

    async def fetch(self, task_id: str) -> bytes:
        """The bytes of a finished task's first result.

        Raises:
            UnexpectedAnswer: There are none to be had.
        """
        answer = await self._client.get(f"{PREFIX}/images/tasks/{task_id}/content")
        if answer.status_code != OK:
            raise UnexpectedAnswer(f"the content of {task_id} answered {answer.status_code}: {answer.text[:300]}")
        return answer.content

    async def cancel(self, task_id: str) -> str:
        """Ask for a cancel; the platform's answer."""
        answer = await self._client.post(f"{PREFIX}/images/tasks/{task_id}/cancel", json={"reason": "as asked"})
        return str(_checked(answer, OK)["status"])

    async def model_is_ready(self) -> bool:
        """Whether the model's canary passed and it takes requests."""
        answer = _checked(await self._client.get(f"{PREFIX}/models"), OK)
        return any(model["id"] == MODEL and model["ready"] for model in answer["data"])


def _checked(answer: httpx.Response, status: int) -> dict[str, Any]:
    if answer.status_code != status:
        raise UnexpectedAnswer(f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:300]}")
    body = answer.json()
    if not isinstance(body, dict):
        raise UnexpectedAnswer(f"{answer.request.url.path} answered no object")
    return body


async def _answers(database: Database) -> bool:
    async with database.read() as reader:
        await ledger.balance(reader, ledger.HOUSE)
    return True


@asynccontextmanager
async def visitor(database: Database, url: str, *, credits: int, purpose: str) -> AsyncIterator[Visitor]:  # noqa: A002 - the ledger's own word
    """A visitor with a new account of so many credits, frozen at the end: ledgers forget nothing."""
    account_id = f"{purpose}-{secrets.token_hex(6)}"
    email, password = f"{account_id}@{purpose}.invalid", secrets.token_urlsafe(24)
    await eventually(lambda: _answers(database), within_s=DATABASE_S, despite=(DatabaseAway,))
    async with database.transaction() as tx:
        await ledger.open_account(tx, account_id=account_id, kind=AccountKind.USER, name=f"for {purpose}")
        await ledger.grant(
            tx, account_id=account_id, credits=credits, reason=f"holdfast {purpose}", actor=purpose, key=account_id
        )
        await accounts.create_member(tx, account_id=account_id, email=email, password=password, role=Role.OWNER)
    wire = Wire(url, answer_s=ANSWER_S)
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=ANSWER_S, limits=limits) as client:
            answer = await client.post("/api/auth/login", json={"email": email, "password": password})
            client.headers["Authorization"] = f"Bearer {_checked(answer, OK)['token']}"
            yield Visitor(client, wire, account_id)
    finally:
        wire.close()
        async with database.transaction() as tx:
            await ledger.freeze(tx, account_id=account_id, frozen=True, reason="measured", actor="bench")
