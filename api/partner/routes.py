"""Every route of the canvas a second time, under the partner's prefix: one behaviour, no copy."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Route

from api.canvas import credits as credit
from api.canvas import edits, events, models, quotes, receipts, scheduler, tasks
from api.core.surface import CANVAS, PARTNER

_MIRRORED = (
    edits.router,  # first, as on the canvas
    tasks.router,
    events.router,
    models.router,
    quotes.router,
    credit.router,
    receipts.router,
    scheduler.router,
)


def mirror(routers: tuple[APIRouter, ...]) -> APIRouter:
    """Their routes under the partner's prefix.

    Raises:
        ValueError: A route doesn't stand under the canvas' prefix, so its place here isn't known.
    """
    mirrored = APIRouter()
    for router in routers:
        for route in router.routes:
            if not isinstance(route, Route | APIRoute) or not route.path.startswith(f"{CANVAS.prefix}/"):
                raise ValueError(f"{route} doesn't stand under {CANVAS.prefix}")
            path = PARTNER.prefix + route.path.removeprefix(CANVAS.prefix)
            methods = sorted(route.methods or ())
            if isinstance(route, APIRoute):
                mirrored.add_api_route(path, route.endpoint, methods=methods)
            else:
                mirrored.add_route(path, route.endpoint, methods=methods)
    return mirrored


router = mirror(_MIRRORED)
# Tools for servers expect to read a task by GET; browsers are kept to POST, which nothing on the way caches.
router.add_api_route(f"{PARTNER.prefix}/images/tasks/{{task_id}}", tasks.query, methods=["GET"])
