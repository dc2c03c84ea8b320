"""Each process starts with every other part away, says so, and leaves with 0 when it is asked to."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.eventually import eventually


def free_port() -> int:
    """Free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Settings that point at nothing."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    return kept | {
        "HOLDFAST_HOME": str(tmp_path),
        "HOLDFAST_DATABASE_URL": f"postgresql:///x?host={tmp_path}/none",
        "HOLDFAST_TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}",
        "HOLDFAST_API_PORT": str(free_port()),
        "HOLDFAST_SESSION_SECRET": "s",
        "HOLDFAST_SIGNING_SECRET": "s",
        "HOLDFAST_HOST_TOKEN": "s",
    }


async def start(name: str, environment: dict[str, str]) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"workers.{name}", env=environment, stderr=asyncio.subprocess.PIPE
    )


async def ended(process: Process) -> int:
    """The exit status after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(30):
        return await process.wait()


@pytest.fixture
async def api(environment: dict[str, str]) -> AsyncIterator[tuple[Process, httpx.AsyncClient]]:
    process = await start("api", environment)
    address = f"http://127.0.0.1:{environment['HOLDFAST_API_PORT']}"
    async with httpx.AsyncClient(base_url=address, timeout=10) as client:

        async def lives() -> bool:
            try:
                return (await client.get("/live")).status_code == 200
            except httpx.TransportError:
                return False

        try:
            await eventually(lives, what="the API's start")
            yield process, client
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_the_api(api: tuple[Process, httpx.AsyncClient]) -> None:
    process, client = api
    ready = await client.get("/ready")

    assert ready.status_code == 503
    assert {"workflow server", "database"} <= set(ready.json()["missing"])
    assert await ended(process) == 0


async def test_the_media_worker(environment: dict[str, str]) -> None:
    process = await start("media", environment)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while b"temporal away" not in (line := await process.stderr.readline()):
                assert line, "it ended by itself"
        assert await ended(process) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert list(Path(environment["HOLDFAST_HOME"]).glob("media-*")) == []  # noqa: ASYNC240 - one look in a test blocks nobody
