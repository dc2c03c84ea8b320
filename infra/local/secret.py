"""Secrets of one stack, made once."""

import json
import os
import secrets
from pathlib import Path

NAMES = ("session_secret", "signing_secret", "host_token", "demo_password", "receipt_key", "order_key")
RECEIPT_KEYS_BEFORE = "receipt_keys_before"
"""Public halves of receipt keys that were replaced, comma separated."""
ORDER_KEY_BEFORE = "order_key_before"
"""Public half of the order key that was replaced last: until hosts know the new one, and after a step back."""
_BYTES = 32
"""Also the size of an Ed25519 seed, which `receipt_key` and `order_key` are."""


def ensure(path: Path) -> dict[str, str]:
    """The stack's secrets; made, and readable by their owner alone, where they aren't yet."""
    kept = read(path)
    missing = [name for name in NAMES if name not in kept]
    if missing:
        kept |= {name: secrets.token_urlsafe(_BYTES) for name in missing}
        _write(path, kept)
    return kept


def read(path: Path) -> dict[str, str]:
    """What was made so far."""
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return kept


def replace_receipt_key(path: Path, public_key_before: str) -> None:
    """Make a new receipt key; the public half of the one before is kept, so that its receipts stay verifiable."""
    kept = ensure(path)
    before = [one for one in (kept.get(RECEIPT_KEYS_BEFORE, ""), public_key_before) if one]
    _write(path, kept | {"receipt_key": secrets.token_urlsafe(_BYTES), RECEIPT_KEYS_BEFORE: ",".join(before)})


def replace_order_key(path: Path, public_key_before: str) -> None:
    """Make a new key for orders; hosts of this stack take the one before as well."""
    kept = ensure(path)
    _write(path, kept | {"order_key": secrets.token_urlsafe(_BYTES), ORDER_KEY_BEFORE: public_key_before})


def _write(path: Path, kept: dict[str, str]) -> None:
    staged = path.with_suffix(".new")
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(kept, file)
    staged.replace(path)
