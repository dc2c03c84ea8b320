"""Who a host is: a random name that is made once and kept beside the journal.

Whoever has another journal knows nothing of what ran here, and so is another host, whatever its name: two agents
with homes of their own on one machine are two hosts.
"""

import os
import secrets
from pathlib import Path


def host_identity(folder: Path) -> str:
    """The identity kept in a host's folder; made, whole or not at all, where there is none. Blocking.

    Raises:
        OSError: The disk is full or failing.
    """
    path = folder / "identity"
    if not path.exists() or not path.read_text().strip():
        partial = path.with_suffix(".part")
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, f"{secrets.token_hex(16)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        partial.replace(path)
    return path.read_text().strip()
