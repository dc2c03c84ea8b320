"""Models beside those shipped, for what no shipped model does yet."""

import shutil
from pathlib import Path

import yaml

from infra.catalog import Catalog, load
from infra.catalog.catalog import MODELS

VARIANTS = "image-variants"
"""Makes up to four pictures of one. Each costs 2 credits, 3 more as a picture (`photo`: 10), and 1 a megapixel."""


def with_variants(folder: Path) -> Catalog:
    """The shipped models and `VARIANTS`, in a new folder."""
    models = folder / "models"
    shutil.copytree(MODELS, models)
    manifest = yaml.safe_load((models / "image-upscale" / "manifest.yaml").read_text(encoding="utf-8"))
    manifest |= {
        "id": VARIANTS,
        "name": "Variants",
        "price": {"base": 2, "per_image": 3, "per_output_megapixel": 1, "by_mode": {"photo": {"per_image": 10}}},
    }
    manifest["parameters"]["n"] = {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}
    manifest["output"]["count"] = "n"
    (models / VARIANTS).mkdir()
    (models / VARIANTS / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    catalog = load(models)
    assert catalog.refused == ()
    return catalog


GIANT = "image-giant"
"""As the shipped model, with a budget that no card has."""


def with_giant(folder: Path, **changes: object) -> Catalog:
    """The shipped models and `GIANT`, in a new folder; it differs by what is given."""
    models = folder / "models"
    shutil.copytree(MODELS, models)
    manifest = yaml.safe_load((models / "image-upscale" / "manifest.yaml").read_text(encoding="utf-8"))
    manifest |= {"id": GIANT, "name": "Giant", "aliases": [], "vram_budget_mib": 1_000_000} | changes
    (models / GIANT).mkdir()
    (models / GIANT / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    catalog = load(models)
    assert catalog.refused == ()
    return catalog
