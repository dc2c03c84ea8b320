"""What the native engine's driver makes of announced files: each is looked at by itself."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from infra.engines.native.driver import NativeEngine


def driver(folder: Path, listed: list[list[object]], monkeypatch: pytest.MonkeyPatch) -> NativeEngine:
    engine = NativeEngine(folder=folder, socket=folder / "socket")

    async def answer(*_: object, **__: object) -> dict[str, Any]:
        return {"files": listed}

    monkeypatch.setattr(engine, "_call", answer)
    return engine


def written(folder: Path, name: str, content: bytes) -> list[object]:
    path = folder / name
    path.write_bytes(content)
    return [str(path), hashlib.sha256(content).hexdigest(), len(content), "image/png"]


async def test_a_file_that_was_tampered_with_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [written(tmp_path, f"{name}.png", name.encode()) for name in ("a", "b", "c")]
    (tmp_path / "b.png").write_bytes(b"x")
    collection = await driver(tmp_path, listed, monkeypatch).collect("run-1", tmp_path)
    assert [(file.index, file.path.name) for file in collection.files] == [(0, "a.png"), (2, "c.png")]
    assert (collection.unusable, collection.failure) == ((1,), None)


@pytest.mark.parametrize("tamper", [True, False])
async def test_without_one_usable_file_the_result_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tamper: bool
) -> None:
    listed = [written(tmp_path, "a.png", b"a")] if tamper else []
    (tmp_path / "a.png").unlink(missing_ok=True)
    collection = await driver(tmp_path, listed, monkeypatch).collect("run-1", tmp_path)
    assert (collection.files, collection.unusable) == ((), ())
    assert collection.failure is not None
