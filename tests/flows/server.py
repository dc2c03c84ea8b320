"""The Temporal server of the tests: the real one from the wheel, with the project's own settings."""

import sys
from pathlib import Path

from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from infra.settings import Settings

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
