"""n outputs asked for, k of them good: k are delivered and paid, the rest of the hold goes back."""

import pytest

from tests.flows.world import BLACK, Script, World, gave, says
from workflows.contracts import generation as g
from workflows.contracts.failures import Code
from workflows.contracts.states import CreditStatus, Status


async def end(world: World, script: Script) -> g.GenerationResult:
    async with world.host(script):
        await world.admit_it(script)
        return await world.handle(script).result()


def black(outcome: g.RunOutcome, *files: int) -> dict[str, object]:
    """What the inspection says of these files."""
    return {outcome.files[file].sha256: BLACK for file in files}


async def test_the_good_ones_are_delivered_and_paid_at_their_own_prices(world: World) -> None:
    outcome = gave(0, 2, 3)
    script = world.script(run=says(outcome), broken=black(outcome, 1))
    script.asks_for(1, 20, 300, 4_000)
    result = await end(world, script)

    assert (result.status, result.credit_status) == (Status.COMPLETED, CreditStatus.SETTLED)
    assert result.charged_credits == 4_001
    script.check_money(settled=4_001)
    assert [artifact.index for artifact in result.artifacts] == [0, 1]
    assert [artifact.blob for artifact in result.artifacts] == [outcome.files[0], outcome.files[2]]
    assert result.partial is not None
    assert (result.partial.asked, result.partial.delivered) == (4, 2)
    assert [(one.index, one.code) for one in result.partial.refused] == [
        (1, Code.MEDIA_VALIDATION_FAILED),
        (2, BLACK.code),
    ]
    (kept,) = script.kept
    assert (kept.artifacts, kept.refused) == (result.artifacts, result.partial.refused)


async def test_all_of_them_are_no_partial_delivery(world: World) -> None:
    script = world.script(run=says(gave(1, 0)))
    script.asks_for(5, 6)
    result = await end(world, script)

    assert (result.partial, result.charged_credits) == (None, 11)
    assert [artifact.blob.sha256 for artifact in result.artifacts] == [f"{1:064x}", f"{0:064x}"]
    script.check_money(settled=11)


@pytest.mark.parametrize("places", [(0, 1, 2), (0, 1, 1), (1, 0, -1), (0, 1, 63)])
async def test_more_than_was_asked_for_is_left_out_and_costs_nothing(
    world: World, places: tuple[int, ...]
) -> None:
    script = world.script(run=says(gave(*places)))
    script.asks_for(5, 6)
    result = await end(world, script)

    assert (result.status, result.partial, result.charged_credits) == (Status.COMPLETED, None, 11)
    assert len(result.artifacts) == 2
    script.check_money(settled=11)
    assert script.notes == ["1 file(s) more than asked for are left out"]


async def test_none_good_is_a_failure_with_its_reason_and_all_is_given_back(world: World) -> None:
    outcome = gave(0, 1)
    script = world.script(run=says(outcome), broken=black(outcome, 0, 1))
    script.asks_for(5, 6)
    result = await end(world, script)

    assert (result.status, result.credit_status) == (Status.FAILED, CreditStatus.RELEASED)
    assert (result.charged_credits, result.partial, result.artifacts) == (0, None, ())
    assert result.failure is not None
    assert result.failure.code is BLACK.code
    assert script.count("keep") == 0
    script.check_money(settled=0)


async def test_an_engine_that_finished_with_no_file_is_not_paid(world: World) -> None:
    script = world.script(run=says(gave()))
    script.asks_for(5, 6)
    result = await end(world, script)

    assert (result.status, result.charged_credits) == (Status.FAILED, 0)
    assert script.count("keep") == 0
    script.check_money(settled=0)
