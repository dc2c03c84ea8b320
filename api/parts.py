"""What the API is wired from; made once by `api.app`, reached by handlers through the request."""

from dataclasses import dataclass

from fastapi import Request

from api.auth.sessions import Sessions
from api.auth.throttle import Throttle
from api.core.background import Background
from api.core.fleet import FleetCache
from api.core.followers import Followers
from api.core.gateway import Generations
from api.core.known import KnownPictures
from api.core.readiness import Readiness
from api.uploads.spool import Spool
from infra.catalog import Catalog
from infra.db import Database
from infra.media.decoder import Decoder
from infra.orders import OrderSigner
from infra.receipts import Signer
from infra.settings import Settings
from infra.storage.store import BlobStore


@dataclass(frozen=True, slots=True)
class Parts:
    """The API's parts. Each is built without touching the network, so the app starts with any of them away."""

    settings: Settings
    database: Database
    store: BlobStore
    catalog: Catalog
    decoder: Decoder
    spool: Spool
    generations: Generations
    sessions: Sessions
    throttle: Throttle
    readiness: Readiness
    known: KnownPictures
    background: Background
    followers: Followers
    fleet: FleetCache
    signer: Signer | None
    """Of receipts; None where no key was given."""
    orders: OrderSigner | None
    """Of what hosts are told to do; None where no key was given, and then they are told nothing."""


def parts_of(request: Request) -> Parts:
    """The parts of the app that serves this request."""
    parts: Parts = request.app.state.parts
    return parts
