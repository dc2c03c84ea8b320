"""Ed25519 keys (RFC 8032): one that signs, and public ones that check."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from infra.signatures.canonical import parsed
from workflows.contracts.message import Message

ALGORITHM = "Ed25519"
KEY_BYTES = 32
_ID_DIGITS = 16


class PublicKey(Message):
    """The public half of a key.

    Attributes:
        id: The first 16 hex digits of its SHA-256.
        public_key: 32 bytes in URL-safe base64.
        first_used_at: When it first signed, as far as that is known.
    """

    id: str
    public_key: str
    first_used_at: datetime | None = None

    @classmethod
    def of(cls, raw: bytes) -> "PublicKey":
        """From its bytes.

        Raises:
            ValueError: not 32 bytes.
        """
        if len(raw) != KEY_BYTES:
            raise ValueError(f"a public key has {KEY_BYTES} bytes")
        return cls(id=hashlib.sha256(raw).hexdigest()[:_ID_DIGITS], public_key=encoded(raw))

    def signed(self, signature: bytes, message: bytes) -> bool:
        """Whether the holder of the private half signed just this."""
        try:
            Ed25519PublicKey.from_public_bytes(decoded(self.public_key)).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class Signer:
    """A key that signs."""

    def __init__(self, seed: str) -> None:
        """`seed` is 32 bytes in URL-safe base64.

        Raises:
            ValueError: it is not; the message doesn't repeat it.
        """
        try:
            raw = decoded(seed)
        except ValueError:
            raw = b""
        if len(raw) != KEY_BYTES:
            raise ValueError(f"the key is not {KEY_BYTES} bytes in URL-safe base64") from None
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = PublicKey.of(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """64 bytes, the same for the same message."""
        return self._key.sign(message)


def public_half(seed: str) -> str:
    """Of a seed, as text.

    Raises:
        ValueError: It is none.
    """
    return Signer(seed).public.public_key


def encoded(raw: bytes) -> str:
    """URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(text: str) -> bytes:
    """The bytes of `encoded` text, of no other spelling.

    Raises:
        ValueError: it is none.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not URL-safe base64") from error
    if encoded(raw) != text:
        raise ValueError("not URL-safe base64 in its one spelling")
    return raw


def key_file(keys: Iterable[PublicKey]) -> dict[str, Any]:
    """Public keys as they are published and as `receipt verify --keys` reads them."""
    return {
        "keys": [
            {
                "key_id": key.id,
                "algorithm": ALGORITHM,
                "public_key": key.public_key,
                "first_used_at": key.first_used_at.isoformat() if key.first_used_at else None,
            }
            for key in keys
        ]
    }


def read_key_file(text: bytes) -> tuple[PublicKey, ...]:
    """The keys of such a file. A key's id is what its bytes say, not what the file says.

    Raises:
        ValueError: it isn't such a file.
    """
    found = parsed(text)
    listed = found.get("keys") if isinstance(found, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("it has no list `keys`")  # noqa: TRY004 - what a person wrote, not a type of ours
    keys = []
    for one in listed:
        if not isinstance(one, Mapping) or not isinstance(one.get("public_key"), str):
            raise ValueError("a key in it has no text `public_key`")  # noqa: TRY004 - as above
        if one.get("algorithm") == ALGORITHM:  # those of other algorithms are for others
            keys.append(PublicKey.of(decoded(one["public_key"])))
    return tuple(keys)
