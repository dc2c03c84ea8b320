"""What a host may upload is recorded as it is allowed, so that its results can be found without it."""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.evidence import StoreActivities
from infra import leases
from tests.contract.test_internal import BLOB, RESULT, TOKEN, placed
from tests.contract.world import User, World
from workflows.contracts.evidence import StoreAnswer, StoreQuestion
from workflows.contracts.hosts import OrderRequest, UploadRequest


async def looked(world: World, order: OrderRequest) -> StoreAnswer:
    """The media worker's look."""
    activities = StoreActivities(database=world.database, store=world.parts.store)
    question = StoreQuestion(task_id=order.task_id, lease_id=order.lease_id, outputs=1)
    return await ActivityEnvironment().run(activities.look_in_store, question)


@pytest.mark.parametrize("index", [0, None])
async def test_a_result_that_was_uploaded_is_found_without_its_host(
    world: World, user: User, index: int | None
) -> None:
    order = await placed(world, user)
    async with world.database.transaction() as tx:
        await leases.open_order(tx, order)
    upload = UploadRequest(
        task_id=order.task_id, lease_id=order.lease_id, fence=order.fence, file=BLOB, index=index
    )
    granted = await world.client.post("/internal/v1/uploads", headers=TOKEN, json=upload.model_dump(mode="json"))
    assert granted.status_code == 200, granted.text
    assert (await looked(world, order)).files == (), "allowed is not yet done"
    address = granted.json()["target"]["url"].removeprefix(world.parts.settings.internal_url)
    assert (await world.client.put(address, content=RESULT)).status_code == 201
    # A host of before doesn't say which output it is: then nothing can be proven without it.
    assert (await looked(world, order)).files == (() if index is None else (BLOB,))
