"""Engines for tests: a native one in a process of its own, kept as an agent keeps it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from infra.engines.native.process import NativeProcess
from infra.engines.port import Engine, OutputSpec, Sighting, Submission
from infra.engines.states import RunState
from tests.support.eventually import eventually


@contextlib.asynccontextmanager
async def native_engine(folder: Path, *, threads: int = 2, orphan_s: float = 60.0) -> AsyncIterator[NativeProcess]:
    """A kept engine that is up; ended with the block."""
    process = NativeProcess(folder, threads=threads, orphan_s=orphan_s)
    async with kept(process):
        yield process
    await process.stop()


@contextlib.asynccontextmanager
async def kept(process: NativeProcess) -> AsyncIterator[None]:
    """Keep an engine, and leave it alone at the end, as an agent that ends does."""
    keeping = asyncio.create_task(process.keep())
    try:
        await eventually(process.engine.probe, what="the engine's start")
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def upscale(
    run_id: str, picture: Path, *, width: int, height: int, scale: int = 2, mode: str = "fast"
) -> Submission:
    """A run of `image_upscale` on a picture that is `width` x `height` upright."""
    return Submission(
        run_id=run_id,
        capability="image_upscale",
        mode=mode,
        parameters={"scale": scale},
        inputs=(picture,),
        outputs=(OutputSpec("image", "image/png", width * scale, height * scale),),
    )


async def to_the_end(engine: Engine, seen: Sighting, *, within: float = 60.0) -> Sighting:
    """Follow until the run is over."""
    async with asyncio.timeout(within):
        while not seen.state.is_over and seen.state is not RunState.ABSENT:
            seen = await engine.follow(seen, wait_s=0.5)
    return seen
