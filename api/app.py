"""The application: built from settings alone, and started with any other part away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from api import errors, health
from api.admin import accounts, fleet, sweep
from api.admin import generations as admin
from api.auth import login
from api.auth.sessions import Sessions
from api.auth.throttle import Throttle
from api.canvas import credits as credit
from api.canvas import edits, events, models, quotes, receipts, scheduler, tasks
from api.core.background import Background
from api.core.fleet import FleetCache
from api.core.followers import Followers
from api.core.gateway import Generations, TemporalGenerations
from api.core.known import KnownPictures
from api.core.readiness import Readiness
from api.envelope import Envelope
from api.internal import blobs, hosts
from api.partner import routes as partner
from api.parts import Parts
from api.uploads.spool import Spool
from infra import catalog
from infra.catalog import Catalog
from infra.db import Database
from infra.media.decoder import Decoder
from infra.orders import OrderSigner
from infra.receipts import Signer
from infra.settings import Settings
from infra.storage.store import BlobStore

ROUTERS = (
    edits.router,  # first: routes are tried in turn, and nobody waits for an answer as who creates does
    health.router,
    login.router,
    tasks.router,
    events.router,
    models.router,
    quotes.router,
    credit.router,
    receipts.router,
    scheduler.router,
    partner.router,
    admin.router,
    accounts.router,
    sweep.router,
    fleet.router,
    blobs.router,
    hosts.router,
)


def create_app(
    settings: Settings, *, generations: Generations | None = None, models_served: Catalog | None = None
) -> FastAPI:
    """The API.

    Args:
        settings: All configuration.
        generations: Another way to reach workflows; only tests give one.
        models_served: Other models than those shipped; only tests give them.
    """
    parts = _parts(settings, generations or TemporalGenerations(settings), models_served or catalog.load())
    app = FastAPI(
        title="Holdfast",
        lifespan=_lifespan,
        redirect_slashes=False,  # a redirect would make some clients repeat a creation as GET
        openapi_url=None,  # a derived one would be untrue: bodies are streams, errors have one shape
    )
    app.state.parts = parts
    errors.install(app, legacy_credit_status=settings.legacy_credit_status)
    app.state.routers = ROUTERS
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(_envelope)
    return app


def _envelope(app: ASGIApp) -> ASGIApp:
    return Envelope(app)


def _parts(settings: Settings, generations: Generations, models_served: Catalog) -> Parts:
    database = Database.from_settings(settings, application="api")
    return Parts(
        settings=settings,
        database=database,
        store=BlobStore.from_settings(settings),
        catalog=models_served,
        decoder=Decoder(),
        spool=Spool(settings.home),
        generations=generations,
        sessions=Sessions(settings),
        throttle=Throttle(),
        readiness=Readiness(database),
        known=KnownPictures(),
        background=Background(),
        fleet=FleetCache(database),
        followers=Followers(database),
        signer=_signer(settings),
        orders=_order_signer(settings),
    )


def _signer(settings: Settings) -> Signer | None:
    seed = settings.receipt_key.get_secret_value()
    return Signer(seed) if seed else None


def _order_signer(settings: Settings) -> OrderSigner | None:
    seed = settings.order_key.get_secret_value()
    return OrderSigner(seed) if seed else None


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    parts: Parts = app.state.parts
    parts.spool.sweep()
    await parts.database.open()
    try:
        yield
    finally:
        await parts.background.close()
        await parts.followers.close()
        parts.decoder.close()
        await parts.database.close()
        parts.spool.close()
