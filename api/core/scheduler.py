"""What clients may know of the fleet: public labels and figures. No host, no instance, no task of others."""

from typing import Any

from api.auth.caller import Caller
from api.deadlines import READ, answer_within
from api.parts import Parts
from infra import fleet
from infra.catalog import CatalogEntry
from infra.fleet import CardView, FleetView

_CPU = "CPU"


async def status(parts: Parts, caller: Caller, *, fresh: bool) -> dict[str, Any]:
    """Cards, what runs and waits on them by model, and the caller's own part."""
    async with answer_within(READ):
        seen, at = await parts.fleet.seen(fresh=fresh)
        async with parts.database.read() as reader:
            own = await fleet.mine(reader, caller.account_id)
    return {
        "object": "scheduler.status",
        "at": at.isoformat(),
        "cards": [_card(card) for card in seen.cards],
        "totals": {
            "cards": len(seen.cards),
            "idle": sum(card.state == "idle" for card in seen.cards),
            "busy": sum(card.state == "busy" for card in seen.cards),
            "vram_total_mib": sum(card.vram_total_mib for card in seen.cards),
            "vram_free_mib": sum(card.vram_free_mib for card in seen.cards),
            "running": sum(work.running for work in seen.workload),
            "waiting": sum(work.waiting for work in seen.workload),
        },
        "workload": [
            {
                "model": work.model_id,
                "running": work.running,
                "waiting": work.waiting,
                "longest_wait_s": round(work.longest_wait_s, 1),
            }
            for work in seen.workload
        ],
        "yours": {"running": own.running, "waiting": own.waiting, "weight": own.weight, "limit": own.on_cards_max},
    }


async def capabilities(parts: Parts, *, fresh: bool) -> dict[str, Any]:
    """Which model is routed where, and whether it is ok."""
    async with answer_within(READ):
        seen, at = await parts.fleet.seen(fresh=fresh)
        models = [
            _routes(entry, seen, ready=await parts.readiness.ready(entry, refresh=fresh))
            for entry in parts.catalog.entries.values()
        ]
    return {"object": "scheduler.capabilities", "at": at.isoformat(), "models": models}


def _card(card: CardView) -> dict[str, Any]:
    return {
        "resource": card.label,
        "kind": "cpu" if card.gpu_model == _CPU else "gpu",
        "gpu_model": card.gpu_model,
        "state": card.state.value,
        "vram_total_mib": card.vram_total_mib,
        "vram_free_mib": card.vram_free_mib,
        "utilisation": card.telemetry.utilisation,
        "temperature_c": card.telemetry.temperature_c,
        "instances": [{"engine": engine} for engine in card.engines],
        "capabilities": list(card.capabilities),
        "model": card.running_model,
    }


def _routes(entry: CatalogEntry, seen: FleetView, *, ready: bool) -> dict[str, Any]:
    manifest = entry.manifest
    routes = [
        {"resource": card.label, "ok": (why := _why_not(entry, card)) is None, "why": why} for card in seen.cards
    ]
    return {
        "model": manifest.id,
        "capability": manifest.capability,
        "engine": manifest.engine,
        "modes": list(manifest.modes),
        "ready": ready,
        "ok": ready and any(route["ok"] for route in routes),
        "routes": routes,
    }


def _why_not(entry: CatalogEntry, card: CardView) -> str | None:
    """Why the model isn't routed to this card; None when it is, busy or not."""
    manifest = entry.manifest
    needed = manifest.vram_budget_mib + manifest.reserve_mib
    reasons = (
        (card.state == "silent", "it is not heard of"),
        (card.state in {"cordoned", "quarantined", "unfit"}, f"it is {card.state.value}"),
        (manifest.engine not in card.engines, f"no {manifest.engine} engine is up"),
        (manifest.capability not in card.capabilities, f"no {manifest.capability}"),
        (card.vram_total_mib - card.foreign_mib < needed, f"{needed} MiB are needed"),
    )
    return next((why for holds, why in reasons if holds), None)
