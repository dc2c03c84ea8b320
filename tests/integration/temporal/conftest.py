"""The embedded Temporal server as `holdfast up` runs it, and a namespace of its own for each test."""

import asyncio
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from temporalio.client import Client

from infra.local import ports, temporal
from infra.local.layout import Layout
from infra.settings import PROJECT, Settings
from infra.temporal.apply import apply
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from tests.support.eventually import eventually

Change = Callable[[dict[str, Any]], None]


@pytest_asyncio.fixture(scope="session")
async def server() -> AsyncIterator[Settings]:
    """Settings that reach a server started with the very command line of the stack."""
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hf-temporal-"))
    layout = Layout(home)
    layout.temporal.mkdir()
    chosen = ports.choose(home / "ports.json")
    settings = Settings(home=home, temporal_address=f"127.0.0.1:{chosen.temporal}")
    argv = temporal.argv(layout, chosen, read_configuration(settings))
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, env={"HOME": str(home)})

    async def answers() -> bool:
        try:
            return await (await connect(settings)).service_client.check_health()
        except RuntimeError:
            return False

    try:
        await eventually(answers, what="the server to answer")
        yield settings
    finally:
        process.terminate()
        await process.wait()
        await asyncio.to_thread(shutil.rmtree, home)


@pytest.fixture
def configured(server: Settings, tmp_path: Path) -> Callable[..., Settings]:
    """Settings with a temporal.yaml of the test's own namespace, changed as the test says."""
    namespace = f"test-{uuid.uuid4().hex[:12]}"

    def make(change: Change = lambda _: None) -> Settings:
        file = yaml.safe_load((PROJECT / "temporal.yaml").read_text())
        file["namespace"]["name"] = namespace
        change(file)
        path = tmp_path / f"{uuid.uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(file))
        return Settings(home=server.home, temporal_address=server.temporal_address, temporal_file=path)

    return make


@pytest.fixture
async def client(configured: Callable[..., Settings]) -> Client:
    """A client of the test's own namespace, which is as temporal.yaml says."""
    settings = configured()
    made = await connect(settings)
    await apply(made, read_configuration(settings))
    return made
