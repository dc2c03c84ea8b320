"""Keys of programs that act for an account. A secret is shown once, when it is made; only its digest is kept."""

import hashlib
import ipaddress
import json
import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from infra.db import Reader, Tx, load
from infra.db.errors import NoSuchRow
from workflows.contracts.message import Message

_QUERIES = load(__package__, "keys.sql")
_ID_BYTES = 6
_SECRET_BYTES = 24
_TOKEN = re.compile(r"hf_([0-9a-z]{8,32})_[A-Za-z0-9_-]{32}")


class Scope(StrEnum):
    """What a key may do."""

    GENERATE = "generate"
    """Create and cancel."""
    READ = "read"
    """Query tasks and models, ask for quotes, fetch content and receipts."""
    CREDITS = "credits"
    """Read the balance and the statement."""


class ApiKey(Message):
    """A key, without its secret.

    Attributes:
        id: `key_` and 12 hex digits.
        account_id: For whom it acts, and who pays.
        name: What its owner calls it.
        scopes: What it may do.
        allowed_networks: From where it may be used, as `10.0.0.0/8`; empty means from everywhere.
        created_at: When it was made.
        created_by: Who made it.
        revoked_at: Since when it is of no use any more.
        expires_at: From when on it will be of no use.
    """

    id: str
    account_id: str
    name: str
    scopes: tuple[Scope, ...]
    allowed_networks: tuple[str, ...]
    created_at: datetime
    created_by: str
    revoked_at: datetime | None
    expires_at: datetime | None

    def allows(self, address: str) -> bool:
        """Whether it may be used from this address; an address that is none is let in nowhere."""
        if not self.allowed_networks:
            return True
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        return any((mapped or found) in ipaddress.ip_network(network) for network in self.allowed_networks)


class KeyProof(Message):
    """What a caller showed: the key that it names, and its secret's digest."""

    key_id: str
    secret_sha256: str


def proof_of(token: str) -> KeyProof | None:
    """What a bearer token proves; None when it has not the form of a key."""
    match = _TOKEN.fullmatch(token)
    return None if match is None else KeyProof(key_id=f"key_{match[1]}", secret_sha256=_digest(token))


async def create_key(
    tx: Tx,
    *,
    account_id: str,
    name: str,
    scopes: Sequence[Scope],
    networks: Sequence[str] = (),
    expires_at: datetime | None = None,
    reason: str,
    actor: str,
) -> tuple[ApiKey, str]:
    """Make a key; the key and the token that its owner keeps, told this once.

    Raises:
        NoSuchRow: no account of this id that pays.
        ReasonMissing: reason or actor are blank.
        ValueError: no scope, no name of 1 to 100 characters, or a network that is none.
    """
    if not scopes:
        raise ValueError("a key needs a scope")
    if not 1 <= len(name) <= 100:  # noqa: PLR2004 - the bound of the table's constraint api_key_name
        raise ValueError("a key's name has 1 to 100 characters")
    networks = [str(ipaddress.ip_network(network)) for network in networks]
    part = secrets.token_hex(_ID_BYTES)
    token = f"hf_{part}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    await tx.run(_QUERIES["lock_payer"], account_id=account_id)
    row = await tx.one(
        _QUERIES["create_key"],
        id=f"key_{part}",
        account_id=account_id,
        name=name,
        secret_sha256=_digest(token),
        scopes=sorted(set(scopes)),
        networks=networks,
        actor=actor,
        expires_at=expires_at,
    )
    key = ApiKey.model_validate(row)
    await _record(tx, key, "created", reason, actor)
    return key, token


async def revoke_key(tx: Tx, *, key_id: str, reason: str, actor: str) -> tuple[ApiKey, bool]:
    """Make a key useless from now on; what it began goes on. The key, and False when it was revoked before.

    Raises:
        NoSuchRow: no such key.
        ReasonMissing: reason or actor are blank.
    """
    row = await tx.one(_QUERIES["revoke_key"], id=key_id)
    if row is None:
        raise NoSuchRow(f"no key {key_id}")
    key, now = ApiKey.model_validate(row), not row["was_revoked"]
    if now:
        await _record(tx, key, "revoked", reason, actor)
    return key, now


async def keys_of(reader: Reader, account_id: str) -> tuple[ApiKey, ...]:
    """All keys of an account, the revoked ones too."""
    rows = await reader.all(_QUERIES["keys_of"], account_id=account_id)
    return tuple(ApiKey.model_validate(row) for row in rows)


async def key_of(reader: Reader, proof: KeyProof) -> ApiKey | None:
    """The key that was shown, while it may be used."""
    row = await reader.one(_QUERIES["by_secret"], id=proof.key_id, secret_sha256=proof.secret_sha256)
    return None if row is None else ApiKey.model_validate(row)


async def _record(tx: Tx, key: ApiKey, deed: str, reason: str, actor: str) -> None:
    data = {"deed": deed, "account_id": key.account_id, "name": key.name, "scopes": key.scopes}
    await tx.run(_QUERIES["record_act"], id=key.id, reason=reason, actor=actor, data=json.dumps(data))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
