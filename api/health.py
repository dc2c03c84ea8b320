"""For deployments: does the process live, can it generate, and what is missing."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api import errors
from api.core import models
from api.deadlines import READ
from api.parts import Parts, parts_of
from infra.db import DatabaseAway
from workflows.contracts.failures import Code, Failure

router = APIRouter()
_NO_STORE = {"Cache-Control": "no-store"}
_READ = ["GET", "HEAD"]
"""Balancers probe with either."""


@router.api_route("/live", methods=_READ)
async def live() -> Response:
    """The process answers; no more is said."""
    return JSONResponse({"status": "live"}, headers=_NO_STORE)


@router.api_route("/ready", methods=_READ)
async def ready(request: Request) -> Response:
    """200 when configuration is there and at least one generating path works."""
    missing = await _missing(parts_of(request))
    if not missing:
        return JSONResponse({"ready": True, "missing": []}, headers=_NO_STORE)
    message = f"Not ready: {', '.join(missing)}."
    failure = errors.body(Failure(code=Code.SERVICE_UNAVAILABLE, message=message))
    body = {"ready": False, "missing": missing, "error": failure}
    retry_after = str(errors.RETRY_AFTER_S[Code.SERVICE_UNAVAILABLE])
    return JSONResponse(body, status_code=503, headers=_NO_STORE | {"Retry-After": retry_after})


@router.api_route("/health", methods=_READ)
async def health(request: Request) -> Response:
    """Each provider and each model, with what it misses."""
    parts = parts_of(request)
    missing = await _missing(parts)
    try:
        shown = await models.listing(parts)
    except (DatabaseAway, errors.ApiError):
        shown = [
            {"id": entry.manifest.id, "ready": False, "missing": ["database"]}
            for entry in parts.catalog.entries.values()
        ]
    lines = [{"id": one["id"], "ready": one["ready"], "missing": one["missing"]} for one in shown]
    native = {"ready": not missing, "missing": missing}
    return JSONResponse({"providers": {"native": native}, "models": lines}, headers=_NO_STORE)


async def _missing(parts: Parts) -> list[str]:
    try:
        async with asyncio.timeout(READ.total_seconds()):
            return await models.missing_parts(parts)
    except TimeoutError:
        return ["database"]
