"""The worker of the sweep's queue, in each orchestrator."""

from temporalio.client import Client
from temporalio.worker import Worker

from activities.sweep import SweepActivities
from infra.db import Database
from infra.storage.store import BlobStore
from workflows.contracts import queues, timeouts

STEPS_MAX = 2
"""One of the schedule, one of somebody's who asked; the workflow takes them one after the other."""


def build_sweeper(client: Client, database: Database, store: BlobStore) -> Worker:
    """Unversioned: what a step does depends on its argument only, whichever build asks."""
    return Worker(
        client,
        task_queue=queues.SWEEP,
        activities=SweepActivities(database=database, client=client, store=store).all(),
        max_concurrent_activities=STEPS_MAX,
        max_heartbeat_throttle_interval=timeouts.BEAT,
        default_heartbeat_throttle_interval=timeouts.BEAT,
    )
