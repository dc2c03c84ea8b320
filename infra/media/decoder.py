"""Decoding off the event loop, a bounded number at a time."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from infra.media.inspect import Measured, judge
from infra.media.probe import decode_fully, probe
from workflows.contracts.failures import Failure
from workflows.contracts.media import MediaContract
from workflows.domain.plan import ImageFacts

P = ParamSpec("P")
T = TypeVar("T")


class Decoder:
    """Threads of its own, so that a burst of pictures delays neither the event loop nor file reads.

    Args:
        concurrency: Pictures at once. Each holds at most the strips of one picture, or, for the types
            that can't be decoded in strips (WebP, interlaced PNG, progressive JPEG), one picture.
    """

    def __init__(self, concurrency: int = 2) -> None:
        """Threads are started when first needed."""
        self._threads = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="decode")

    async def probe(
        self, path: Path, *, field: str, label: str | None, filename: str | None, mimes: Sequence[str]
    ) -> ImageFacts | Failure:
        """See `infra.media.probe.probe`."""
        return await self._run(probe, path, field=field, label=label, filename=filename, mimes=mimes)

    async def decode_fully(self, path: Path, facts: ImageFacts, *, field: str) -> ImageFacts | Failure:
        """See `infra.media.probe.decode_fully`."""
        return await self._run(decode_fully, path, facts, field=field)

    async def judge(self, path: Path, contract: MediaContract) -> Measured | Failure:
        """See `infra.media.inspect.judge`."""
        return await self._run(judge, path, contract)

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(*args, **kwargs))
