"""The native engine as its host's agent sees it: the port, spoken over the engine's Unix socket."""

import asyncio
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import httpx

from infra.engines.port import Collection, EngineFailure, OutputFile, Probe, Sighting, Submission
from infra.engines.states import RunState
from workflows.contracts.failures import Code
from workflows.contracts.hosts import Loaded

ANSWER_S = 3.0
"""Every call but a waiting one answers within milliseconds; more is silence."""
LOAD_S = 20.0
"""To load a network takes 0.2 s, on a busy machine some seconds."""


class NativeEngine:
    """A driver of one engine process, whichever process that is at the moment."""

    kind = "native"
    capabilities = ("image_upscale",)
    keeps_records = True

    def __init__(self, *, folder: Path, socket: Path) -> None:
        """Connect lazily: the engine may not be up yet.

        Args:
            folder: The engine's own; results are taken from nowhere else.
            socket: Where it listens.
        """
        self._folder = folder
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=ANSWER_S)

    async def close(self) -> None:
        """Close the connections; the engine goes on."""
        await self._client.aclose()

    async def submit(self, submission: Submission) -> Sighting:
        """See `Engine.submit`."""
        order = {
            "capability": submission.capability,
            "mode": submission.mode,
            "parameters": dict(submission.parameters),
            "inputs": [str(path) for path in submission.inputs],
        }
        return await self._see("PUT", submission.run_id, json=order)

    async def attach(self, run_id: str) -> Sighting:
        """See `Engine.attach`."""
        return await self._see("GET", run_id)

    async def follow(self, seen: Sighting, *, wait_s: float) -> Sighting:
        """See `Engine.follow`. A silent engine is asked again after a pause that ends with `wait_s`."""
        query = {"state": seen.state.value, "wait_s": repr(wait_s)}
        sighting = await self._see("GET", seen.run_id, params=query, timeout=wait_s + ANSWER_S)
        if sighting.state is RunState.SILENT:
            await asyncio.sleep(min(wait_s, 0.2))
        return sighting

    async def cancel(self, run_id: str) -> Sighting:
        """See `Engine.cancel`."""
        return await self._see("POST", run_id, suffix="/cancel")

    async def collect(self, run_id: str, into: Path) -> Collection:
        """See `Engine.collect`. The files stay where the engine wrote them; nothing is copied."""
        del into  # this engine shares the host's disk
        answer = await self._call("GET", f"/runs/{run_id}")
        listed = (answer or {}).get("files") or []
        files, unusable, why = [], [], "no files listed"
        for index, entry in enumerate(listed):
            try:
                files.append(await asyncio.to_thread(self._checked, index, *entry))
            except (OSError, ValueError) as error:
                unusable.append(index)
                why = str(error)
        if not files:
            return Collection(failure=_unusable(why))
        return Collection(files=tuple(files), unusable=tuple(unusable))

    async def forget(self, run_id: str) -> None:
        """See `Engine.forget`."""
        await self._call("DELETE", f"/runs/{run_id}")

    async def load(self, name: str) -> bool:
        """See `Engine.load`."""
        answer = await self._call("PUT", f"/residents/{name}", json={}, timeout=LOAD_S)
        return bool((answer or {}).get("done"))

    async def free(self, name: str | None = None) -> bool:
        """See `Engine.free`."""
        answer = await self._call("DELETE", f"/residents/{name}" if name else "/residents", timeout=LOAD_S)
        return bool((answer or {}).get("done"))

    async def probe(self) -> Probe | None:
        """See `Engine.probe`."""
        answer = await self._call("GET", "/probe")
        if answer is None or "boot_id" not in answer:
            return None
        return Probe(
            boot_id=answer["boot_id"],
            version=answer["version"],
            pid=answer["pid"],
            runs=tuple(answer["runs"]),
            kept=tuple(answer["kept"]),
            residents=tuple(Loaded(name=n, mib=mib, load_s=s) for n, mib, s in answer.get("residents", ())),
        )

    async def _see(self, method: str, run_id: str, suffix: str = "", **options: Any) -> Sighting:
        answer = await self._call(method, f"/runs/{run_id}{suffix}", **options)
        if answer is None:
            return Sighting(run_id, RunState.SILENT)
        failure = answer.get("failure")
        if "state" not in answer:  # refused: nothing was accepted
            state = RunState.FAILED if failure else RunState.SILENT
            return Sighting(run_id, state, failure=_failure(failure), refused=state is RunState.FAILED)
        return Sighting(
            run_id=run_id,
            state=RunState(answer["state"]),
            fraction=float(answer["fraction"]),
            boot_id=answer["boot_id"],
            failure=_failure(failure),
            engine_s=answer.get("engine_s"),
            crashed=bool(answer.get("crashed", False)),
        )

    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        """The engine's answer; None for silence, which includes answers that aren't ours."""
        try:
            response = await self._client.request(method, path, **options)
            answer = response.json()
        except (httpx.HTTPError, ValueError):
            return None
        return answer if isinstance(answer, dict) else None

    def _checked(self, index: int, name: str, sha256: str, size: int, mime: str) -> OutputFile:
        """A file that is regular, lies in the engine's folder, and is what the engine said.

        Raises:
            OSError: It can't be read.
            ValueError: It isn't what was said.
        """
        path = Path(name)
        if not path.parent.resolve().is_relative_to(self._folder.resolve()):
            raise ValueError("a result lies outside the engine's folder")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # a link is refused: it leads elsewhere
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
                raise ValueError(f"{path.name} is not the file of {size} bytes that was announced")
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise ValueError(f"{path.name} doesn't have the announced digest")
        return OutputFile(path=path, sha256=sha256, size=size, mime=mime, index=index)


def _failure(parts: Any) -> EngineFailure | None:
    if not parts:
        return None
    code, message, detail = parts
    return EngineFailure(Code(code), message, detail)


def _unusable(detail: str) -> EngineFailure:
    return EngineFailure(Code.UPSTREAM_FAILED, "The engine's result can't be used.", detail)
