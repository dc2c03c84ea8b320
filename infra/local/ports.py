"""Ports of one stack: chosen free once, then kept, so that addresses stay good over restarts."""

import contextlib
import json
import socket
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError


class Ports(BaseModel):
    """TCP ports on 127.0.0.1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    api: int
    temporal: int
    temporal_ui: int
    temporal_http: int
    temporal_metrics: int


def choose(path: Path, *, api: int = 0) -> Ports:
    """The ports in `path` where they are free still; others are replaced and the file rewritten.

    Args:
        path: The file that remembers them.
        api: A port that the operator fixed for the API; 0 means any.

    Raises:
        OSError: The port that the operator fixed is taken.
    """
    kept = read(path)
    with contextlib.ExitStack() as held:  # each stays bound until all are chosen, or two could be the same
        chosen = {"api": _bound(held, api, strict=True)} if api else {}
        for name in Ports.model_fields:
            if name not in chosen:
                chosen[name] = _bound(held, getattr(kept, name) if kept else 0, strict=False)
    ports = Ports(**chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".new")
    staged.write_text(ports.model_dump_json())
    staged.replace(path)
    return ports


def read(path: Path) -> Ports | None:
    """The ports last chosen; None when none were or the file is damaged."""
    try:
        return Ports.model_validate(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, ValidationError):
        return None


def _bound(held: contextlib.ExitStack, wanted: int, *, strict: bool) -> int:
    probe = held.enter_context(socket.socket())
    # As servers do: a port in TIME_WAIT from our own last run is free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", wanted))
    except OSError:
        if strict:
            raise
        probe.bind(("127.0.0.1", 0))
    port: int = probe.getsockname()[1]
    return port
