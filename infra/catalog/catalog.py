"""Loads every manifest. A broken one is refused by name, and the rest still serve."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import structlog
import yaml
from pydantic import ValidationError

from workflows.domain.manifest import Manifest
from workflows.domain.pricing import unpriceable

MODELS = Path(__file__).resolve().parent / "models"
MANIFEST = "manifest.yaml"
MANIFEST_BYTES_MAX = 1_048_576

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A model that serves.

    Attributes:
        manifest: What it declares.
        digest: SHA-256 over the manifest and every other file of its folder; canaries and receipts carry it.
        folder: Where they lie.
    """

    manifest: Manifest
    digest: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Refused:
    """A folder whose manifest is broken: its name, and why, for operators."""

    name: str
    reason: str


class Catalog:
    """Models by id and by alias. Immutable; a change on disk is a new catalog."""

    def __init__(self, entries: Mapping[str, CatalogEntry], refused: tuple[Refused, ...] = ()) -> None:
        """`entries` by model id."""
        self.entries: Mapping[str, CatalogEntry] = MappingProxyType(dict(entries))
        self.refused = refused
        self._aliases = {alias: name for name, entry in entries.items() for alias in entry.manifest.aliases}

    def find(self, name: str) -> CatalogEntry | None:
        """The model of that id or alias."""
        return self.entries.get(self._aliases.get(name, name))


def load(folder: Path = MODELS) -> Catalog:
    """Read every `<id>/manifest.yaml` below `folder`."""
    entries: dict[str, CatalogEntry] = {}
    refused: list[Refused] = []
    taken: dict[str, str] = {}
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        name = path.parent.name
        try:
            entry = _entry(path)
            _claim_names(entry.manifest, taken)
        except (OSError, ValueError, yaml.YAMLError) as error:
            reason = _reason(error)
            log.warning("model refused", model=name, reason=reason)
            refused.append(Refused(name=name, reason=reason))
        else:
            entries[name] = entry
    return Catalog(entries, tuple(refused))


def digest(folder: Path) -> str:
    """SHA-256 over each file's relative name and content, in order; unseen files (dot names) don't count."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if not path.is_file() or any(part.startswith((".", "__")) for part in relative.parts):
            continue
        content = path.read_bytes()
        total.update(f"{len(relative.as_posix())}:{relative.as_posix()}:{len(content)}:".encode())
        total.update(content)
    return total.hexdigest()


def _entry(path: Path) -> CatalogEntry:
    if path.stat().st_size > MANIFEST_BYTES_MAX:
        raise ValueError(f"the manifest is larger than {MANIFEST_BYTES_MAX} bytes")
    manifest = Manifest.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    if manifest.id != path.parent.name:
        raise ValueError(f"its id is `{manifest.id}`, its folder `{path.parent.name}`")
    scale = manifest.parameters.get("scale")
    if scale is None or scale.type != "integer" or not (scale.required or scale.default):
        raise ValueError(
            "output size `scaled_input` needs an integer parameter `scale`, required or with a default"
        )
    if manifest.images.count_min < 1:
        raise ValueError("output size `scaled_input` needs at least one image")
    unpriced = unpriceable(manifest)
    if unpriced is not None:
        raise ValueError(unpriced)
    return CatalogEntry(manifest=manifest, digest=digest(path.parent), folder=path.parent)


def _claim_names(manifest: Manifest, taken: dict[str, str]) -> None:
    names = (manifest.id, *manifest.aliases)
    for name in names:
        if name in taken:
            raise ValueError(f"`{name}` already names the model `{taken[name]}`")
    taken.update(dict.fromkeys(names, manifest.id))


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()
        )
    return str(error)
