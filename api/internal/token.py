"""Hosts prove themselves by a shared token."""

import hmac

from fastapi import Request

from api.errors import refuse
from api.parts import parts_of
from workflows.contracts.failures import Code


async def from_host(request: Request) -> None:
    """Refuse everybody without the host token, before the body is read.

    Raises:
        ApiError: 503 where no token is configured, 401 otherwise.
    """
    expected = parts_of(request).settings.host_token.get_secret_value()
    if not expected:
        raise refuse(Code.NOT_CONFIGURED, "Hosts are not configured here.")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode(), expected.encode()):
        raise refuse(Code.UNAUTHENTICATED, "This address is for hosts.")
