"""Manifests: a broken one is refused by name, and the rest still serve."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.catalog import load
from infra.catalog.catalog import MODELS

Change = Callable[[dict[str, object]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped models, to be broken."""
    shutil.copytree(MODELS, tmp_path / "models")
    return tmp_path / "models"


def add(folder: Path, name: str, change: Change) -> None:
    """A copy of a good manifest under another name, changed."""
    manifest = yaml.safe_load((folder / "image-upscale" / "manifest.yaml").read_text())
    manifest["id"] = name
    change(manifest)
    (folder / name).mkdir()
    (folder / name / "manifest.yaml").write_text(yaml.safe_dump(manifest))


def _seconds(manifest: Any, **spec: object) -> None:
    """Seconds of the output come from a parameter that is so."""
    manifest["parameters"]["s"] = {"type": "number", **spec}
    manifest["output"]["seconds"] = "s"


def test_what_ships_loads() -> None:
    catalog = load()
    assert catalog.refused == ()
    assert "image-upscale" in catalog.entries


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(surprise=1), "surprise"),
        (lambda m: m.pop("price"), "price"),
        (lambda m: m.update(id="other"), "its folder"),
        (lambda m: m.update(aliases=["image-upscale"]), "already names"),
        (lambda m: m["parameters"].pop("scale"), "scale"),
        (lambda m: m["images"].update(count_min=0), "at least one image"),
        (lambda m: m["price"].update(base=1.5), "price.base"),
        (lambda m: m["price"].update(base=-1), "price.base"),
        (lambda m: m["price"].update(per_pixel=1), "per_pixel"),
        (lambda m: m["price"].update(by_mode={"slow": {"base": 1}}), "`slow`, which is no mode"),
        (lambda m: m["price"].update(by_mode={"fast": {"per_step": 1}}), "`steps` of mode `fast`"),
        (lambda m: m["price"].update(per_second=1), "`seconds` of the output"),
        (lambda m: m["price"].update(per_frame=1), "`frames` of the output"),
        (lambda m: m["output"].update(count="n"), "output.count: `n` is no parameter that is an integer"),
        (lambda m: m["output"].update(count=65), "the most is 64"),
        (lambda m: _seconds(m, required=True), "`s` needs choices, or a minimum and a maximum"),
        (lambda m: _seconds(m, required=True, minimum=-1, maximum=9), "all above 0"),
        (lambda m: _seconds(m, minimum=1, maximum=9), "must be required"),
        (lambda m: m["modes"]["fast"].update(steps="s"), "modes.fast.steps: `s` is no parameter"),
    ],
)
def test_a_broken_manifest_is_refused_by_name_and_the_rest_serve(folder: Path, change: Change, says: str) -> None:
    add(folder, "zz-broken", change)
    catalog = load(folder)

    (refused,) = catalog.refused
    assert refused.name == "zz-broken"
    assert says in refused.reason
    assert list(catalog.entries) == ["image-upscale"]


def test_text_that_is_no_yaml_is_refused_too(folder: Path) -> None:
    (folder / "bad").mkdir()
    (folder / "bad" / "manifest.yaml").write_text("{[")
    (folder / "worse").mkdir()
    (folder / "worse" / "manifest.yaml").write_bytes(b"\xff\xfe")

    assert [refused.name for refused in load(folder).refused] == ["bad", "worse"]


def test_an_alias_finds_the_model(folder: Path) -> None:
    add(folder, "other", lambda m: m.update(aliases=["comfy-other"]))
    catalog = load(folder)

    assert catalog.find("comfy-other") is catalog.find("other") is catalog.entries["other"]
    assert catalog.find("nothing") is None


def test_the_digest_follows_every_file_that_belongs_to_the_model(folder: Path) -> None:
    def digest() -> str:
        return load(folder).entries["image-upscale"].digest

    first = digest()
    (folder / "image-upscale" / ".editor-swap").write_text("x")
    assert digest() == first
    (folder / "image-upscale" / "graph.json").write_text("{}")
    second = digest()
    (folder / "image-upscale" / "graph.json").write_text("{ }")
    assert len({first, second, digest()}) == 3
