"""Passwords as scrypt hashes; the parameters travel with each hash, so that they can be raised later."""

import base64
import hashlib
import hmac
import secrets

_COST = 2**14
_BLOCK = 8
_LANES = 1
_MEMORY_BYTES_MAX = 64 * 1024 * 1024
"""16 MiB are needed with these parameters; OpenSSL refuses by default just below that."""
_SALT_BYTES = 16
PASSWORD_CHARS_MAX = 1024
"""A longer one is refused before it is hashed: hashing is the expensive part."""


def hash_password(password: str) -> str:
    """`scrypt$cost$block$lanes$salt$key`; about 50 ms, so not for an event loop.

    Raises:
        ValueError: longer than `PASSWORD_CHARS_MAX`.
    """
    if len(password) > PASSWORD_CHARS_MAX:
        raise ValueError(f"a password has at most {PASSWORD_CHARS_MAX} characters")
    salt = secrets.token_bytes(_SALT_BYTES)
    key = _derive(password, salt, _COST, _BLOCK, _LANES)
    return f"scrypt${_COST}${_BLOCK}${_LANES}${_text(salt)}${_text(key)}"


def verify_password(password: str, stored: str) -> bool:
    """Whether this is the password; takes as long for a wrong one."""
    scheme, cost, block, lanes, salt, key = stored.split("$")
    if scheme != "scrypt":
        raise ValueError(f"unknown password scheme {scheme}")
    derived = _derive(password[:PASSWORD_CHARS_MAX], base64.b64decode(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(derived, base64.b64decode(key)) and len(password) <= PASSWORD_CHARS_MAX


def _derive(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=lanes, maxmem=_MEMORY_BYTES_MAX, dklen=32
    )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
