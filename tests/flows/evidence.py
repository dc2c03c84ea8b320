"""The fake steps about unknown outcomes: looks, decisions, and the search after a release."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from temporalio import activity

from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import CreditStatus, Status

if TYPE_CHECKING:
    from tests.flows.world import Script


class EvidenceSteps:
    """Part of the world: what its scripts say about runs in doubt."""

    scripts: dict[str, "Script"]

    def end_released(self, script: "Script", status: Status, failure: Failure | None) -> None:
        script.released += script.held
        script.closing = closing(script.request.task_id, status, CreditStatus.RELEASED)
        if failure is not None and failure.code is Code.OUTCOME_UNKNOWN and script.unknowns:
            now = datetime.now(UTC)
            script.late = e.LateLook(until=now + script.late_for, next_look_at=now, lease=script.card)

    @activity.defn(name="resolve")
    async def resolve(self, order: e.Resolve) -> g.Closing:
        script = self.scripts[order.task_id]
        script.log.append(f"resolve {order.credits} by {order.actor}")
        script.acts.append(order)
        if script.closing is None and order.credits is None:
            self.end_released(script, order.status, order.failure)
        elif script.closing is None and order.credits is not None:
            script.settled += order.credits
            script.released += script.held - order.credits
            script.closing = closing(order.task_id, Status.COMPLETED, CreditStatus.SETTLED, order.credits)
        assert script.closing is not None
        return script.closing

    @activity.defn(name="record_look")
    async def record_look(self, look: e.Look) -> None:
        looks = self.scripts[look.task_id].looks
        if look not in looks:
            looks.append(look)

    @activity.defn(name="look_in_journal")
    async def look_in_journal(self, order: g.RunOrder) -> g.RunOutcome | None:
        return self.scripts[order.task_id].journaled

    @activity.defn(name="look_in_store")
    async def look_in_store(self, question: e.StoreQuestion) -> e.StoreAnswer:
        stored = self.scripts[question.task_id].stored
        return e.StoreAnswer(files=stored, said=f"{len(stored)} of {question.outputs} are there")

    @activity.defn(name="begin_late_look")
    async def begin_late_look(self, step: e.LateStep) -> e.LateLook | None:
        return self.scripts[step.task_id].late

    @activity.defn(name="plan_late_look")
    async def plan_late_look(self, step: e.LateStep) -> None:
        script = self.scripts[step.task_id]
        assert script.late is not None
        script.late = script.late.model_copy(update={"next_look_at": step.next_look_at})

    @activity.defn(name="end_late_look")
    async def end_late_look(self, step: e.LateStep) -> None:
        self.scripts[step.task_id].late_ending = step.ending

    @activity.defn(name="deliver_late")
    async def deliver_late(self, step: e.LateStep) -> g.Closing:
        script = self.scripts[step.task_id]
        script.log.append("deliver late")
        script.late_ending = "delivered"
        script.closing = closing(step.task_id, Status.COMPLETED, CreditStatus.RELEASED)
        return script.closing


def closing(task_id: str, status: Status, credit_status: CreditStatus, charged: int = 0) -> g.Closing:
    return g.Closing(
        task_id=task_id,
        status=status,
        credit_status=credit_status,
        balance_credits=95,
        charged_credits=charged,
    )
