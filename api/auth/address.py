"""Where a request comes from, for keys that are used from some networks only."""

import ipaddress
from collections.abc import Sequence

from fastapi import Request

_FORWARDED = "x-forwarded-for"


def address_of(request: Request, trusted_proxies: Sequence[str]) -> str:
    """The caller's address. What a header says of it counts only when one of our own proxies wrote it.

    Each proxy appends whom it heard; so the last address that isn't a proxy's is the caller's, and what stands
    before it is anybody's claim.
    """
    peer = request.client.host if request.client else ""
    if not trusted_proxies or not _among(peer, trusted_proxies):
        return peer
    heard = ",".join(request.headers.getlist(_FORWARDED)).split(",")
    for address in reversed([part.strip() for part in heard if part.strip()]):
        if not _among(address, trusted_proxies):
            return address
    return peer


def _among(address: str, networks: Sequence[str]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in ipaddress.ip_network(network) for network in networks)
