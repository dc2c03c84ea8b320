"""Makes a Temporal server what `temporal.yaml` says, or tells where it differs. Safe to repeat."""

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from infra.temporal import schedules
from infra.temporal.configuration import TemporalConfiguration
from infra.temporal.differing import Difference

__all__ = ["Difference", "apply", "differences"]

_DEADLINE = timedelta(seconds=10)
_KNOWN_S = 60.0
_LOOK_S = 0.2


async def differences(client: Client, configuration: TemporalConfiguration) -> list[Difference]:
    """Where the server differs from the file; empty when it doesn't."""
    found = await _namespace_differences(client, configuration)
    if found and found[0].server == "absent":
        return [
            *found,
            *(
                Difference(f"search attribute {name}", "absent", kind)
                for name, kind in configuration.search_attributes.items()
            ),
            *await schedules.differences(None, configuration),
        ]
    present = await _search_attributes(client, configuration.namespace.name)
    for name, kind in configuration.search_attributes.items():
        on_server = present.get(name)
        if on_server != kind:
            found.append(Difference(f"search attribute {name}", on_server or "absent", kind, on_server is None))
    return found + await schedules.differences(client, configuration)


async def apply(client: Client, configuration: TemporalConfiguration) -> list[Difference]:
    """Change what differs and can be changed; answers what did differ.

    Raises:
        RPCError: The server did not answer, or refused.
        TimeoutError: A new namespace wasn't known to all of the server in time.
    """
    found = await differences(client, configuration)
    namespace, retention = configuration.namespace.name, _retention(configuration)
    for difference in found:
        if difference.what == "namespace":
            await client.workflow_service.register_namespace(
                RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=retention),
                timeout=_DEADLINE,
            )
        elif difference.what == "retention":
            await client.workflow_service.update_namespace(
                UpdateNamespaceRequest(
                    namespace=namespace, config=NamespaceConfig(workflow_execution_retention_ttl=retention)
                ),
                timeout=_DEADLINE,
            )
    missing = {
        name: IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")
        for name, kind in configuration.search_attributes.items()
        if any(d.applicable and d.what == f"search attribute {name}" for d in found)
    }
    if found and found[0].what == "namespace":
        await _until_known(client, namespace)
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=namespace, search_attributes=missing), timeout=_DEADLINE
        )
    await schedules.apply(client, configuration, found)
    return found


async def _until_known(client: Client, namespace: str) -> None:
    """Wait until a new namespace is known everywhere in the server: its caches are refreshed every few seconds.

    Raises:
        TimeoutError: It isn't known after `_KNOWN_S`.
    """
    async with asyncio.timeout(_KNOWN_S):
        while True:
            try:
                await _search_attributes(client, namespace)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                await asyncio.sleep(_LOOK_S)
            else:
                return


def _retention(configuration: TemporalConfiguration) -> Duration:
    retention = Duration()
    retention.FromTimedelta(timedelta(days=configuration.namespace.retention_days))
    return retention


async def _namespace_differences(client: Client, configuration: TemporalConfiguration) -> list[Difference]:
    wanted = configuration.namespace
    try:
        answer = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=wanted.name), timeout=_DEADLINE
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return [Difference("namespace", "absent", wanted.name)]
    days = answer.config.workflow_execution_retention_ttl.ToTimedelta() / timedelta(days=1)
    if days == wanted.retention_days:
        return []
    return [Difference("retention", f"{days:g} days", f"{wanted.retention_days} days")]


async def _search_attributes(client: Client, namespace: str) -> dict[str, str]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=namespace), timeout=_DEADLINE
    )
    return {
        name: IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").capitalize()
        for name, kind in answer.custom_attributes.items()
    }
