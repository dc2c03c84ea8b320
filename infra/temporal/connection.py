"""Connections to the Temporal server."""

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from infra.settings import Settings
from infra.temporal.configuration import read_configuration


class TemporalNotConfiguredError(Exception):
    """No Temporal address is set: start the embedded stack, or set HOLDFAST_TEMPORAL_ADDRESS."""


async def connect(settings: Settings, *, lazy: bool = False) -> Client:
    """A client of the configured namespace, with the converter that every payload of ours needs.

    Args:
        settings: Where the server is.
        lazy: Connect at the first call, so that a process can start while the server is away.

    Raises:
        TemporalNotConfiguredError: No address is set.
        RuntimeError: The server can't be reached; never when `lazy`.
    """
    if settings.temporal_address is None:
        raise TemporalNotConfiguredError(TemporalNotConfiguredError.__doc__)
    key = settings.temporal_api_key
    return await Client.connect(
        settings.temporal_address,
        namespace=read_configuration(settings).namespace.name,
        data_converter=pydantic_data_converter,
        tls=settings.temporal_tls,
        api_key=key.get_secret_value() if key else None,
        lazy=lazy,
    )
