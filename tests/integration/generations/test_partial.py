"""A partial delivery in the database: paid by the terms, and the audit sees one that isn't."""

import pytest

from infra import generations
from infra.db.errors import HoldExceeded
from tests.support.generations import Ways, blob, request
from workflows.contracts.failures import Code
from workflows.contracts.generation import GenerationRequest, KeepOrder
from workflows.contracts.media import Artifact, RefusedOutput
from workflows.contracts.prices import PriceTerms

PRICES = (1, 20, 300)


async def kept(ways: Ways, *places: int) -> GenerationRequest:
    """Admitted, and of its three outputs these are kept."""
    asked = request(await ways.account(1_000), price=sum(PRICES))
    asked = asked.model_copy(
        update={"outputs": asked.outputs * len(PRICES), "price": PriceTerms(per_output=PRICES)}
    )
    await ways.admit(asked)
    order = KeepOrder(
        task_id=asked.task_id,
        account_id=asked.account_id,
        artifacts=tuple(
            Artifact(index=index, role="image", blob=blob(f"{asked.task_id} {place}"), width=128, height=128)
            for index, place in enumerate(places)
        ),
        refused=tuple(
            RefusedOutput(index=place, code=Code.MEDIA_VALIDATION_FAILED, message="It can't be decoded.")
            for place in range(len(PRICES))
            if place not in places
        ),
    )
    async with ways.database.transaction() as tx:
        await generations.keep(tx, order)
    return asked


async def test_what_is_delivered_is_paid_and_the_rest_is_there_again(ways: Ways) -> None:
    asked = await kept(ways, 0, 2)
    assert await ways.balance(asked.account_id) == (1_000 - 321, 321, 0)
    closing = await ways.settle(asked.task_id, 301)
    assert closing.charged_credits == 301
    assert await ways.balance(asked.account_id) == (1_000 - 301, 0, 301)
    assert (await ways.settle(asked.task_id, 301)) == closing
    assert await ways.breaches() == []


async def test_a_charge_that_is_not_that_of_the_deliveries_is_found(ways: Ways) -> None:
    asked = await kept(ways, 0, 2)
    await ways.settle(asked.task_id, 320)
    (breach,) = await ways.breaches()
    assert breach.name == "charged_otherwise_than_delivered"
    assert breach.detail == f"{asked.task_id} charged 320 of 301"


async def test_more_than_the_hold_is_refused_whoever_asks(ways: Ways) -> None:
    asked = await kept(ways, 0, 1, 2)
    with pytest.raises(HoldExceeded):
        await ways.settle(asked.task_id, 322)
    assert await ways.balance(asked.account_id) == (1_000 - 321, 321, 0)


async def test_an_operator_may_settle_otherwise_and_the_audit_takes_it(ways: Ways) -> None:
    asked = await kept(ways, 0)
    await ways.settle(asked.task_id, 0, actor="operator:ana")
    assert "charged_otherwise_than_delivered" not in {breach.name for breach in await ways.breaches()}
