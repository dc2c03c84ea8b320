"""When Temporal knows nothing of a generation any more, its operation id still can't be charged again.

A server forgets after its retention, or when its database is lost. Here it is another server, which never heard of
the generation: the embedded one takes a minute to delete a history, and to a course both are the same.
"""

import contextlib
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from infra.settings import Settings
from infra.temporal import generations
from infra.temporal.deployment import build_id, promote
from tests.flows.server import start_server
from tests.integration.orchestration.conftest import Platform
from tests.support.eventually import eventually
from tests.support.generations import request
from workers.orchestrator import build_worker
from workflows.contracts import timeouts
from workflows.contracts.generation import CancelRequest, GenerationResult
from workflows.contracts.states import AdmissionOutcome, Status


@contextlib.asynccontextmanager
async def another_server(platform: Platform) -> AsyncIterator[Client]:
    """An orchestrator of the same database on a server without any history."""
    async with (
        await start_server() as environment,
        build_worker(environment.client, Settings(), platform.database),
    ):
        await promote(environment.client, build_id(), patience=timeouts.CARD_PICKUP)
        yield environment.client


@pytest.mark.parametrize("end", [Status.COMPLETED, Status.CANCELED])
async def test_an_operation_whose_history_is_gone_is_never_charged_again(platform: Platform, end: Status) -> None:
    account = await platform.ways.account()
    asked, before = request(account), request(account)
    if end is Status.CANCELED:  # it waits behind another one, and is canceled there
        await generations.admit(platform.client, before)
        await eventually(lambda: platform.card.ran, what="the run before it")
    await generations.admit(platform.client, asked)
    if end is Status.CANCELED:
        await generations.request_cancel(platform.client, asked.task_id, CancelRequest())
    platform.card.go.set()
    first = await platform.result(asked.task_id)
    if end is Status.CANCELED:
        await platform.result(before.task_id)
    ran, balance = list(platform.card.ran), await platform.ways.balance(account)

    async with another_server(platform) as client:
        with pytest.raises(RPCError, match="not found"):
            await client.get_workflow_handle(asked.task_id).describe()
        again = await generations.admit(client, asked)
        handle = client.get_workflow_handle(asked.task_id, result_type=GenerationResult)
        result: GenerationResult = await handle.result()
    assert first.status is end
    assert again.outcome is AdmissionOutcome.FINISHED
    assert result.credit_status is first.credit_status
    assert (await platform.ways.record(asked)).status is end
    assert await platform.ways.balance(account) == balance
    assert platform.card.ran == ran, "nothing ran again"
    assert await platform.audit() == []
