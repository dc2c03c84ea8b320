"""`python -m workers.orchestrator`: decides each generation's course, places, relays, proves models."""

import asyncio
import sys
from datetime import timedelta

import uvloop
from temporalio.client import Client
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkerDeploymentVersion

from activities.evidence import EvidenceActivities
from activities.ledger import LedgerActivities
from activities.placement import PlacementActivities
from infra import metrics
from infra.catalog import catalog
from infra.db import Database
from infra.settings import Settings
from infra.storage.store import BlobStore
from infra.telemetry import configure_logging
from infra.temporal.configuration import read_configuration
from infra.temporal.deployment import build_id
from workers import registry
from workers.orchestration.canaries import Canaries
from workers.orchestration.figures import Figures
from workers.orchestration.placer import Placer
from workers.orchestration.relay import OutboxRelay
from workers.orchestration.sweeping import build_sweeper
from workers.runtime import Stop, connected, serve
from workers.sandbox import sandbox
from workflows.contracts import queues, timeouts

GRACE = timedelta(seconds=10)
"""For money steps under way: twice `timeouts.MONEY_STEP`."""
LOOP_CONNECTIONS = 4
"""The loops' own pool: money steps never wait for it, nor it for them."""


def build_worker(client: Client, settings: Settings, money: Database) -> Worker:
    """The workflow worker, sandbox on, with the money steps as its local activities.

    It polls no ordinary activities: nobody else in the namespace can be handed a money step, or take one.
    """
    configuration = read_configuration(settings)
    limits = configuration.task_queues.orchestrator
    steps = (
        LedgerActivities(
            database=money,
            in_flight_max=settings.in_flight_max,
            duplicate_window_s=settings.duplicate_window_s,
        ),
        PlacementActivities(database=money),
        EvidenceActivities(database=money),
    )
    return Worker(
        client,
        task_queue=queues.ORCHESTRATOR,
        workflows=[registry.find(name) for name in registry.REGISTRY[queues.ORCHESTRATOR].workflows],
        activities=[step for each in steps for step in each.all()],
        workflow_runner=sandbox("workflows"),
        no_remote_activities=True,
        max_cached_workflows=limits.max_cached_workflows,
        max_concurrent_workflow_tasks=limits.max_concurrent_workflow_tasks,
        max_concurrent_local_activities=limits.max_concurrent_local_activities,
        sticky_queue_schedule_to_start_timeout=timeouts.STICKY_QUEUE,
        graceful_shutdown_timeout=GRACE,
        deployment_config=WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(
                deployment_name=configuration.worker_deployment.name, build_id=build_id()
            ),
            use_worker_versioning=True,
        ),
    )


async def run(settings: Settings, stop: Stop) -> None:
    """Work until told to stop. Parts that are away are waited for; none of them ends it."""
    limits = read_configuration(settings).task_queues.orchestrator
    money = Database.from_settings(
        settings, application="orchestrator money", pool_max=limits.local_money_connections
    )
    database = Database.from_settings(settings, application="orchestrator", pool_max=LOOP_CONNECTIONS)
    async with money, database:
        client = await connected(settings, stop)
        if client is None:
            return
        store, models = BlobStore.from_settings(settings), catalog.load()
        loops = (
            Placer(database, models),
            OutboxRelay(database, client),
            Canaries(database, client, store, models),
            Figures(database, models),
        )
        async with asyncio.TaskGroup() as group:  # an error that a loop doesn't know ends all, loudly
            for loop in loops:
                group.create_task(loop.run(stop))
            group.create_task(serve(lambda: build_sweeper(client, database, store), stop, grace=GRACE))
            await serve(lambda: build_worker(client, settings, money), stop, grace=GRACE)


async def _main() -> None:
    await run(Settings(), Stop().listen())


def main() -> int:
    """Run with settings from the environment."""
    configure_logging("orchestrator")
    metrics.serve(Settings(), "orchestrator")
    uvloop.run(_main())
    return 0


if __name__ == "__main__":
    sys.exit(main())
