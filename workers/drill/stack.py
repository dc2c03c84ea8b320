"""A stack of the drill's own, in a folder that goes afterwards; no other is touched, whatever is configured."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from infra.local.layout import Layout
from infra.local.stack import as_environment, with_stack
from infra.settings import Settings

WORDS_MAX = 2_000
UP_S = 180
"""The first start makes a database cluster and waits for the models' canaries."""
_ELSEWHERE = ("database_url", "temporal_address", "temporal_api_key", "temporal_ui_url", "object_store_url")
"""Parts that may be configured to be somebody else's; a drill kills, so it has its own."""


class StackFailed(Exception):
    """The drill's own stack did not come up; the message is what it said."""


@asynccontextmanager
async def temporary_stack(
    tell: Callable[[str], None], *, keep: bool = False, points: Sequence[str] = ()
) -> AsyncIterator[Settings]:
    """Bring a stack up in a new folder and take it down again; the settings name where its parts are.

    With `keep` it is left running, to be looked at. Processes that pass one of `points` kill themselves, once.

    Raises:
        StackFailed: It did not come up.
    """
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-drill-"))
    settings = _own(home, points)
    try:
        tell(f"bringing up a stack in {home}")
        await _holdfast(settings, "up", "--detach")
        yield with_stack(settings)
    finally:
        if keep:
            tell(f"left running: HOLDFAST_HOME={home} holdfast status")
        else:
            tell("taking it down")
            try:
                await _holdfast(settings, "down")
            finally:
                await asyncio.to_thread(_remove, settings)


def _own(home: Path, points: Sequence[str]) -> Settings:
    nowhere = dict.fromkeys(_ELSEWHERE)
    return Settings(
        home=home, api_port=0, api_public_url=None, api_internal_url=None, fault_points=",".join(points), **nowhere
    )


def _remove(settings: Settings) -> None:
    """All that the stack wrote: run by root, its database may lie outside its home."""
    for folder in Layout(settings.home).places:
        shutil.rmtree(folder, ignore_errors=True)


async def _holdfast(settings: Settings, *arguments: str) -> None:
    """Run the command line with exactly these settings, whatever the environment holds."""
    unset = [word for name in Settings.model_fields for word in ("-u", f"HOLDFAST_{name.upper()}")]
    given = [f"{name}={value}" for name, value in as_environment(settings).items()]
    program = str(Path(sys.executable).with_name("holdfast"))
    process = await asyncio.create_subprocess_exec(
        *("env", *unset, *given, program, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(UP_S):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise StackFailed(f"`holdfast {' '.join(arguments)}` took longer than {UP_S} s") from None
    if process.returncode != 0:
        words = said.decode(errors="replace").strip()[-WORDS_MAX:]
        raise StackFailed(f"`holdfast {' '.join(arguments)}` said: {words}")
