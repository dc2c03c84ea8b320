"""Which evidence is sought, in which order; what of it is recorded; decisions by signal; late results."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from infra.temporal import generations
from tests.flows.test_unknown import RELEASE, SETTLE, UNKNOWN, in_doubt
from tests.flows.world import BLACK, Script, World, finished, runs_until_told, says
from tests.support.eventually import eventually
from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts import names
from workflows.contracts.states import CancelAnswer, CreditStatus, Decision, RunVerdict, Status

GONE = g.RunOutcome(verdict=RunVerdict.CANCELED, evidence="the engine never had the run")
BY_MANIFEST: dict[str, Any] = {"resolve_by_s": 1, "release_unknown": True}


async def dies(_script: Script, _order: g.RunOrder) -> g.RunOutcome:
    raise ApplicationError("the agent is gone", non_retryable=True)


async def details(world: World, script: Script) -> str:
    """What the Web UI shows."""
    return str(await world.handle(script).query("__temporal_workflow_metadata")).replace("\\", "")


async def test_a_host_that_never_comes_back_after_its_upload_ends_delivered(world: World) -> None:
    script = world.script(run=dies, stored=finished().files)
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert (result.status, result.credit_status, len(result.artifacts)) == (
        Status.COMPLETED,
        CreditStatus.SETTLED,
        1,
    )
    assert [(look.source, look.finding) for look in script.looks] == [
        (e.Source.HOST, e.Finding.NO_WORD),
        (e.Source.STORE, e.Finding.FINISHED),
    ]
    script.check_money(settled=5)


async def test_the_store_is_asked_only_when_the_host_cannot_say(world: World) -> None:
    failed = g.RunOutcome(verdict=RunVerdict.FAILED, evidence="the engine said so")
    script = world.script(run=says(UNKNOWN, failed), stored=finished().files)
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert result.status is Status.FAILED, "the host's definite word counts"
    assert [look.source for look in script.looks] == [e.Source.HOST]
    script.check_money(settled=0)


async def test_a_journal_lost_right_after_the_delivery_costs_no_result(world: World) -> None:
    never = g.RunOutcome(
        verdict=RunVerdict.FAILED, may_have_run=False, evidence="journal and engine know of no run"
    )
    script = world.script(run=says(UNKNOWN, never), stored=finished().files, waits=timedelta(seconds=30))
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert (result.status, len(script.orders)) == (Status.COMPLETED, 2), "delivered, and not run again"
    script.check_money(settled=5)


async def test_a_card_that_is_busy_keeps_nobody_waiting_for_what_is_journaled(world: World) -> None:
    script = world.script(run=runs_until_told)
    other = world.script(run=says(UNKNOWN), journaled=finished())
    other.card = script.card.model_copy(update={"lease_id": other.card.lease_id, "fence": 2})
    async with world.host(script):
        await world.admit_it(other)
        await eventually(lambda: other.unknowns, what="the unknown to be shown")
        await world.admit_it(script)
        await eventually(lambda: script.orders, what="the card to be busy with another run")
        result = await world.handle(other).result()
        script.finish.set()
        await world.handle(script).result()
    assert result.status is Status.COMPLETED
    assert [order.attach_only for order in other.orders] == [False], "the card's slot was never asked for"
    other.check_money(settled=5)


async def test_what_lies_in_the_store_in_part_proves_nothing(world: World) -> None:
    script = world.script(run=says(UNKNOWN))
    async with world.host(script):
        await in_doubt(world, script)
        await eventually(lambda: len(script.looks) == 2, what="a look at host and store")
        assert (script.settled, script.released) == (0, 0)
        assert (await world.view(script)).credit_status is CreditStatus.UNKNOWN

        async def counted() -> bool:
            return "2 look(s) so far" in await details(world, script)

        await eventually(counted, what="both looks in the details")
        await world.handle(script).terminate("the test has seen enough")


async def test_nothing_runs_again_after_the_deadline(world: World) -> None:
    never = g.RunOutcome(verdict=RunVerdict.FAILED, may_have_run=False, evidence="the journal has no intent")
    script = world.script(run=says(UNKNOWN, never, finished()), waits=timedelta(seconds=4))
    async with world.host(script):
        await in_doubt(world, script)
        await generations.assign(world.client, script.request.task_id, script.card.model_copy(update={"fence": 2}))
        result = await world.handle(script).result()
    assert result.status is Status.EXPIRED, "the proof came after the deadline, with a card at hand"
    assert [order.attach_only for order in script.orders] == [False, True]
    script.check_money(settled=0)


async def test_a_plain_signal_decides(world: World) -> None:
    script = world.script(run=says(UNKNOWN), late_for=timedelta(0))
    async with world.host(script):
        await in_doubt(world, script)
        await world.handle(script).signal(
            names.RESOLVE_SIGNAL, {"decision": "release", "reason": "no job there", "actor": "ana"}
        )
        result = await world.handle(script).result()
    assert (result.status, result.credit_status) == (Status.FAILED, CreditStatus.RELEASED)
    assert [(act.reason, act.actor) for act in script.acts] == [("no job there", "operator:ana")]
    script.check_money(settled=0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (None, "isn't an object"),
        ("release", "isn't an object"),
        ({"decision": "release", "actor": "ana"}, "`reason` is missing"),
        ({"decision": "release", "reason": " ", "actor": "ana"}, "`reason` is missing"),
        ({"decision": "release", "reason": "r"}, "`actor` is missing"),
        ({"decision": "refund", "reason": "r", "actor": "ana"}, "settle or release"),
    ],
)
async def test_a_signal_that_does_not_fit_is_told_and_decides_nothing(
    world: World, said: object, told: str
) -> None:
    script = world.script(run=says(UNKNOWN))
    async with world.host(script):
        await in_doubt(world, script)
        await world.handle(script).signal(names.RESOLVE_SIGNAL, args=[] if said is None else [said])
        assert told in await details(world, script)
        assert (script.settled, script.released) == (0, 0)
        await world.handle(script).terminate("the test has seen enough")


async def test_a_result_found_after_a_release_by_manifest_is_delivered_free(world: World) -> None:
    script = world.script(run=says(UNKNOWN, UNKNOWN, finished()), **BY_MANIFEST)
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert (result.status, result.credit_status, result.charged_credits) == (
        Status.COMPLETED,
        CreditStatus.RELEASED,
        0,
    )
    assert len(result.artifacts) == 1
    released = script.log.index("release outcome_unknown by manifest:release_unknown")
    assert released < script.log.index("keep") < script.log.index("deliver late")
    script.check_money(settled=0)


async def test_a_result_found_after_an_operators_release_is_delivered_free(world: World) -> None:
    script = world.script(run=dies)
    async with world.host(script):
        await in_doubt(world, script)
        closing = await generations.resolve(world.client, script.request.task_id, RELEASE)
        assert closing.credit_status is CreditStatus.RELEASED
        script.stored = finished().files
        result = await world.handle(script).result()
    assert (result.status, result.credit_status) == (Status.COMPLETED, CreditStatus.RELEASED)
    script.check_money(settled=0)


async def test_while_a_late_result_is_sought_the_generation_is_over_for_everybody(world: World) -> None:
    async def goes_on(script: Script, order: g.RunOrder) -> g.RunOutcome:
        late = script.closing is not None
        return await runs_until_told(script, order) if late else UNKNOWN

    script = world.script(run=goes_on, **BY_MANIFEST)
    async with world.host(script):
        await in_doubt(world, script)
        await eventually(lambda: script.closing and script.log[-1] == "look", what="the late look")
        view = await world.view(script)
        assert (view.status, view.credit_status) == (Status.FAILED, CreditStatus.RELEASED)
        assert view.late_until is not None
        assert "still looking for a late result" in await details(world, script)
        reply = await generations.request_cancel(world.client, script.request.task_id, g.CancelRequest())
        assert reply.answer is CancelAnswer.NOT_CANCELLABLE
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await generations.resolve(world.client, script.request.task_id, SETTLE)
        assert isinstance(refused.value.cause, ApplicationError)
        assert refused.value.cause.type == "already_final"
        await world.handle(script).cancel()
        script.finish.set()
        result = await world.handle(script).result()
    assert "engine stopped" not in script.log, "its result is still wanted"
    assert result.status is Status.COMPLETED
    script.check_money(settled=0)


@pytest.mark.parametrize(
    ("says_then", "broken", "late_for", "ending"),
    [
        (GONE, False, timedelta(days=7), "gone"),
        (finished(), True, timedelta(days=7), "spoiled"),
        (UNKNOWN, False, timedelta(seconds=1), "not_found"),
    ],
)
async def test_a_search_in_vain_ends_and_changes_nothing(
    world: World, says_then: g.RunOutcome, broken: bool, late_for: timedelta, ending: str
) -> None:
    script = world.script(run=says(UNKNOWN, UNKNOWN, says_then), late_for=late_for, **BY_MANIFEST)
    if broken:
        script.broken[finished().files[0].sha256] = BLACK
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert (result.status, result.credit_status, result.artifacts) == (
        Status.FAILED,
        CreditStatus.RELEASED,
        (),
    )
    assert script.late_ending == ending
    script.check_money(settled=0)


async def test_a_definite_failure_begins_no_search(world: World) -> None:
    failed = g.RunOutcome(verdict=RunVerdict.FAILED, evidence="the engine said so")
    script = world.script(run=says(UNKNOWN, failed, finished()))
    async with world.host(script):
        await in_doubt(world, script)
        result = await world.handle(script).result()
    assert result.status is Status.FAILED
    assert script.log.count("look") == 1


async def test_a_decision_to_settle_does_not_wait_for_a_host_that_is_away(world: World) -> None:
    script = world.script(run=says(UNKNOWN))
    async with world.host(script):
        await in_doubt(world, script)
    # Its host is gone: the look before the booking finds nobody, and the client's patience must outlast it.
    closing = await generations.resolve(
        world.client, script.request.task_id, RELEASE.model_copy(update={"decision": Decision.SETTLE})
    )
    assert closing.credit_status is CreditStatus.SETTLED
    assert script.looks[0].finding is e.Finding.NO_WORD
    script.check_money(settled=5)
