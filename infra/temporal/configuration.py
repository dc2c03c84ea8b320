"""`temporal.yaml`, checked: a misspelt key is refused by name instead of being ignored."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.settings import Settings


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Namespace(_Part):
    """The namespace that everything runs in."""

    name: str
    retention_days: Annotated[int, Field(ge=1)]


class Deployment(_Part):
    """The worker deployment whose versions pin workflows."""

    name: str
    behavior: Literal["pinned"]


class OrchestratorQueue(_Part):
    """Limits of a worker of the orchestrator's queue."""

    max_cached_workflows: Annotated[int, Field(ge=1)]
    max_concurrent_workflow_tasks: Annotated[int, Field(ge=2)]
    max_concurrent_local_activities: Annotated[int, Field(ge=1)]
    local_money_connections: Annotated[int, Field(ge=2)]


class ActivityQueue(_Part):
    """Limits of a worker that only runs activities."""

    max_concurrent_activities: Annotated[int, Field(ge=1)]


class TaskQueues(_Part):
    """One entry a kind of queue."""

    orchestrator: OrchestratorQueue
    media: ActivityQueue
    card: ActivityQueue


class Schedule(_Part):
    """A workflow that the server starts again and again; never while the one before still runs."""

    workflow: Literal["Sweep"]
    every_s: Annotated[int, Field(ge=1)]
    catchup_window_s: Annotated[int, Field(ge=10)]


class TemporalConfiguration(_Part):
    """The whole file."""

    namespace: Namespace
    search_attributes: dict[str, Literal["Keyword", "Int", "Datetime", "Bool", "Double", "Text"]]
    worker_deployment: Deployment
    task_queues: TaskQueues
    schedules: dict[str, Schedule]
    dynamic_config: dict[str, int | bool | str]


def read_configuration(settings: Settings) -> TemporalConfiguration:
    """The file that `settings.temporal_file` names.

    Raises:
        pydantic.ValidationError: A key is unknown, missing or out of bounds.
    """
    return TemporalConfiguration.model_validate(settings.temporal)
