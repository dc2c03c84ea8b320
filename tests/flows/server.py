"""The Temporal server of the tests: the real one from the wheel, with the project's own settings."""

import sys
from pathlib import Path

from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import WorkerDeploymentConfig, WorkerDeploymentVersion

from infra.settings import Settings
from tests.support.eventually import eventually
from workflows.contracts import queues

VERSION = WorkerDeploymentVersion(deployment_name=queues.DEPLOYMENT, build_id="test")
DEPLOYMENT = WorkerDeploymentConfig(version=VERSION, use_worker_versioning=True)
TEMPORAL = Path(sys.executable).with_name("temporal")


async def start_server() -> WorkflowEnvironment:
    """Start it in memory, with the dynamic configuration and the search attributes of `temporal.yaml`."""
    file = Settings().temporal
    dynamic, attributes = file["dynamic_config"], file["search_attributes"]
    assert isinstance(dynamic, dict)
    assert isinstance(attributes, dict)
    flags: list[str] = []
    for key, value in dynamic.items():
        flags += ["--dynamic-config-value", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(TEMPORAL),
        data_converter=pydantic_data_converter,
        search_attributes=[SearchAttributeKey.for_keyword(name) for name in attributes],
        dev_server_extra_args=flags,
        ui=False,
    )


async def make_current(client: Client) -> None:
    """Route new workflows to `VERSION`; its worker has to have polled once before."""

    async def promoted() -> bool:
        try:
            await client.workflow_service.set_worker_deployment_current_version(
                SetWorkerDeploymentCurrentVersionRequest(
                    namespace=client.namespace,
                    deployment_name=VERSION.deployment_name,
                    build_id=VERSION.build_id,
                )
            )
        except RPCError:
            return False
        return True

    await eventually(promoted, what="the test's worker version to become current")
