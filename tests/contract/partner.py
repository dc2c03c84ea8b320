"""A program of an account, at the partner surface."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import httpx

from infra.accounts.keys import ApiKey, Scope, create_key, revoke_key
from tests.contract.world import MODEL, User, World
from tests.support.pictures import png

PARTNER = "/v1"


@dataclass(frozen=True, slots=True)
class Program:
    """It holds a key."""

    world: World
    account_id: str
    key: ApiKey
    token: str

    def headers(self, operation_id: str | None = None) -> dict[str, str]:
        """Of an authenticated request."""
        found = {"Authorization": f"Bearer {self.token}"}
        return found | ({"Idempotency-Key": operation_id} if operation_id else {})

    async def create(
        self, operation_id: str | None, picture: bytes | None = None, **fields: str
    ) -> httpx.Response:
        """`POST /v1/images/edits/tasks` with a PNG."""
        return await self.world.client.post(
            f"{PARTNER}/images/edits/tasks",
            headers=self.headers(operation_id),
            data={"model": MODEL, "scale": "2"} | fields,
            files=[("image", ("in.png", picture or png(), "image/png"))],
        )

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """`GET` of a path of the partner surface."""
        return await self.world.client.get(PARTNER + path, headers=self.headers() | headers)

    async def revoke(self) -> bool:
        """Make the key useless."""
        async with self.world.database.transaction() as tx:
            _, now = await revoke_key(tx, key_id=self.key.id, reason="test", actor="test")
        return now


async def program(
    world: World,
    user: User,
    *,
    scopes: Sequence[Scope] = tuple(Scope),
    networks: Sequence[str] = (),
    expires_at: datetime | None = None,
) -> Program:
    """A program with a new key of the user's account."""
    async with world.database.transaction() as tx:
        key, token = await create_key(
            tx,
            account_id=user.account_id,
            name="the shop's server",
            scopes=scopes,
            networks=networks,
            expires_at=expires_at,
            reason="test",
            actor="test",
        )
    return Program(world, user.account_id, key, token)
