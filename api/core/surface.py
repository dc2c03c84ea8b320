"""The two surfaces that clients create on. They differ in where they stand and in how a caller proves himself."""

from dataclasses import dataclass

from fastapi import Request


@dataclass(frozen=True, slots=True)
class Surface:
    """One of them.

    Attributes:
        prefix: Of all its addresses.
        by_key: Whether callers show API keys; else they have sessions. Neither is taken on the other surface.
    """

    prefix: str
    by_key: bool


CANVAS = Surface("/api/proxy/v1", by_key=False)
PARTNER = Surface("/v1", by_key=True)


def surface_of(request: Request) -> Surface:
    """The surface that a request came to."""
    return PARTNER if request.scope["path"].startswith(f"{PARTNER.prefix}/") else CANVAS
