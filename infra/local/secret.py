"""Secrets of one stack, made once."""

import json
import os
import secrets
from pathlib import Path

NAMES = ("session_secret", "signing_secret", "host_token", "demo_password")
_BYTES = 32


def ensure(path: Path) -> dict[str, str]:
    """The stack's secrets; made, and readable by their owner alone, where they aren't yet."""
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    missing = [name for name in NAMES if name not in kept]
    if missing:
        kept |= {name: secrets.token_urlsafe(_BYTES) for name in missing}
        staged = path.with_suffix(".new")
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(kept, file)
        staged.replace(path)
    return kept
