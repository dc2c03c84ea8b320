"""The outbox relay: carries messages out of the database, at least once each."""

import asyncio

import structlog
from temporalio.client import Client

from infra import leases, metrics, outbox
from infra.db import Database
from infra.temporal import generations
from workers.orchestration.loop import Loop
from workflows.contracts.generation import AcceptLease

BATCH = 32
"""Delivered side by side within one transaction, which holds their locks for one signal's deadline at most."""
log = structlog.get_logger(__name__)


class OutboxRelay(Loop):
    """Any number of relays share the work: rows in delivery are locked, and others skip them."""

    role = "relay"
    channel = leases.OUTBOX_CHANNEL
    alone = False

    def __init__(self, database: Database, client: Client) -> None:
        """`client` carries signals."""
        super().__init__(database)
        self._client = client

    async def turn(self) -> None:
        """Deliver until nothing is left, or nothing gets through."""
        while await self._deliver_batch() == BATCH:
            pass

    async def _deliver_batch(self) -> int:
        """How many were delivered."""
        async with self._database.transaction() as tx:
            rows = await outbox.take(tx, BATCH)
            errors = await asyncio.gather(*(self._deliver(row) for row in rows))
            for row, error in zip(rows, errors, strict=True):
                if error is None:
                    await outbox.mark_done(tx, row.id)
                else:
                    log.warning("not delivered", topic=row.topic, key=row.key, reason=error)
                    await outbox.mark_failed(tx, row.id, error)
        return errors.count(None)

    async def _deliver(self, row: outbox.OutboxRow) -> str | None:
        """Deliver one; the error when it has to be tried again."""
        if row.topic is not outbox.Topic.ASSIGNED:
            _count(row)
            return None  # the others are recorded for subscribers; there are none to carry them to
        order = AcceptLease.model_validate(row.payload)
        try:
            await generations.assign(self._client, order.task_id, order.lease)
        except generations.NoOpenCourse:
            return None  # it ended meanwhile, and its end took the offer back
        except generations.TemporalAway as error:
            return str(error)
        return None


def _count(row: outbox.OutboxRow) -> None:
    """Each message is delivered once by all relays together, unless one dies in the middle of a batch."""
    if row.topic is outbox.Topic.CLOSED:
        metrics.count(
            "generations_closed", status=row.payload["status"], credit_status=row.payload["credit_status"]
        )
        metrics.count("credits_charged", row.payload["charged"])
    elif row.topic is outbox.Topic.DELIVERED_LATE:
        metrics.count("generations_delivered_late")
