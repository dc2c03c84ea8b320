"""What can be asked for, and whether it works right now."""

from typing import Any

from api.deadlines import READ, answer_within
from api.parts import Parts
from infra.catalog import CatalogEntry
from infra.db import DatabaseAway
from workflows.contracts.prices import UNIT


async def listing(parts: Parts, *, refresh: bool = False) -> list[dict[str, Any]]:
    """Every model, ready or not, and those whose manifest is broken.

    Raises:
        DatabaseAway: Readiness can't be read now.
    """
    shown = [await describe(parts, entry, refresh=refresh) for entry in parts.catalog.entries.values()]
    broken = [{"id": one.name, "ready": False, "missing": ["manifest"]} for one in parts.catalog.refused]
    return shown + broken


async def describe(parts: Parts, entry: CatalogEntry, *, refresh: bool = False) -> dict[str, Any]:
    """One model as discovery shows it."""
    async with answer_within(READ):
        ready = await parts.readiness.ready(entry, refresh=refresh)
    manifest = entry.manifest
    return {
        "id": manifest.id,
        "object": "model",
        "name": manifest.name,
        "aliases": list(manifest.aliases),
        "capability": manifest.capability,
        "modes": [
            {"id": name, "description": mode.description, "pixels_max": mode.pixels_max}
            for name, mode in manifest.modes.items()
        ],
        "parameters": {
            name: spec.model_dump(mode="json", exclude_none=True) for name, spec in manifest.parameters.items()
        },
        "limits": {
            "image": manifest.images.model_dump(mode="json")
            | {"bytes_max": min(manifest.images.bytes_max, parts.settings.upload_bytes_max)}
        },
        "price": {"unit": UNIT} | manifest.price.model_dump(mode="json", exclude_defaults=True),
        "ready": ready,
        "missing": parts.readiness.missing(ready=ready),
    }


async def missing_parts(parts: Parts) -> list[str]:
    """What keeps this installation from generating, in public words; empty when at least one path works."""
    missing = [
        name
        for name, secret in (
            ("session secret", parts.settings.session_secret),
            ("host token", parts.settings.host_token),
            ("order key", parts.settings.order_key),
        )
        if not secret.get_secret_value()
    ]
    if not await parts.generations.reachable():
        missing.append("workflow server")
    try:
        ready = [await parts.readiness.ready(entry) for entry in parts.catalog.entries.values()]
    except DatabaseAway:
        return [*missing, "database"]
    return missing if any(ready) else [*missing, "ready model"]
