"""Workflows without a workflow server: the same promises, kept by a few lines on the same database.

It stands in for the orchestrator where a test is about HTTP. Each generation waits until the test ends it.
"""

import asyncio

from infra import generations
from infra.db import Database
from infra.generations import doubts
from infra.temporal.courses import Fault, Look, Standing
from infra.temporal.generations import AdmissionUnanswered, NoOpenCourse, TemporalAway
from workflows.contracts import timeouts
from workflows.contracts.evidence import Resolve
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import (
    Admission,
    CancelReply,
    CancelRequest,
    Closing,
    GenerationRequest,
    Release,
    Resolution,
)
from workflows.contracts.states import CancelAnswer, Decision, Phase, Status
from workflows.contracts.sweep import SweepOrder, SweepReport


class InProcessGenerations:
    """Implements `api.core.gateway.Generations`.

    Attributes:
        admitted: Every request that came, in order.
        answers: What the database answered.
        silent: While set, nobody answers an admission, as without an orchestrator.
        away: While set, the workflow server can't be reached.
        lost: While set, the workflows are gone: terminated, or their database was.
        completed: While set, the workflows ran to their end, whatever the database says.
        sweeps: Every sweep that was asked for.
        gate: Admissions wait for it before they hold.
        lose_answer: While set, the hold is taken and its answer is lost.
    """

    def __init__(
        self,
        database: Database,
        *,
        in_flight_max: int = generations.IN_FLIGHT_MAX,
        duplicate_window_s: float = 0.0,
    ) -> None:
        """`database` is the test's own pool, so that it works while the API's is cut off."""
        self.database = database
        self._in_flight_max = in_flight_max
        self._duplicate_window_s = duplicate_window_s
        self.admitted: list[GenerationRequest] = []
        self.answers: list[Admission] = []
        self.silent = False
        self.away = False
        self.lost = False
        self.lose_answer = False
        self.completed = False
        self.sweeps: list[SweepOrder] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def admit(self, request: GenerationRequest) -> Admission:
        """Hold, as the orchestrator would."""
        self.admitted.append(request)
        if self.away:
            raise TemporalAway("away")
        if self.silent:
            await asyncio.sleep(timeouts.ADMISSION.total_seconds())  # not a wait: this is the silence itself
            raise AdmissionUnanswered("silent")
        await self.gate.wait()
        async with self.database.transaction() as tx:
            answer = await generations.admit(
                tx, request, in_flight_max=self._in_flight_max, duplicate_window_s=self._duplicate_window_s
            )
        self.answers.append(answer)
        if self.lose_answer:
            raise AdmissionUnanswered("lost")
        return answer

    async def request_cancel(self, task_id: str, request: CancelRequest) -> CancelReply:
        """What waits is canceled at once; what runs is asked to stop, and goes on until a test ends it."""
        if self.away:
            raise TemporalAway("away")
        if self.lost:
            raise NoOpenCourse("lost")
        async with self.database.transaction() as tx:
            await generations.request_cancel(tx, task_id, request)
        record = await self.record(task_id)
        if record.phase is not Phase.WAITING:
            return CancelReply(
                task_id=task_id,
                answer=CancelAnswer.CANCEL_REQUESTED,
                credit_status=record.credit_status,
            )
        order = Release(
            task_id=task_id,
            status=Status.CANCELED,
            failure=Failure(code=Code.CANCELED, message="Canceled as asked."),
            lease_id=None,
            actor="test",
        )
        async with self.database.transaction() as tx:
            closing = await generations.release(tx, order)
        return CancelReply(task_id=task_id, answer=CancelAnswer.CANCELED, credit_status=closing.credit_status)

    async def courses(self) -> "InProcessCourses":
        """As the server's."""
        return InProcessCourses(self)

    async def sweep(self, order: SweepOrder) -> SweepReport | None:
        """Remember what was asked; a real one is for tests with a server."""
        if self.away:
            raise TemporalAway("away")
        self.sweeps.append(order)
        return None if self.silent else SweepReport(dry_run=order.dry_run, looked_at={"courses": 1})

    async def reachable(self) -> bool:
        """Unless `away`."""
        return not self.away

    async def record(self, task_id: str) -> generations.GenerationRecord:
        """As its owner reads it."""
        account_id = next(request.account_id for request in self.admitted if request.task_id == task_id)
        async with self.database.read() as reader:
            record = await generations.find(reader, account_id=account_id, task_id=task_id)
        assert record is not None
        return record


class InProcessCourses:
    """Implements `infra.operators.Courses`: an open workflow books a decision as the real one does."""

    def __init__(self, workflows: InProcessGenerations) -> None:
        """Of these workflows."""
        self._workflows = workflows

    async def look(self, _task_id: str) -> Look:
        """Open, unless they are lost or ended."""
        if self._workflows.away:
            raise TemporalAway("away")
        if self._workflows.lost:
            return Look(Standing.ABSENT)
        return Look(Standing.COMPLETED if self._workflows.completed else Standing.OPEN, "run-1", "running", 1)

    async def fault(self, _task_id: str, _look: Look) -> Fault | None:
        """None: they have none."""
        return None

    async def resolve(self, task_id: str, resolution: Resolution) -> Closing:
        """Book it."""
        settles = resolution.decision is Decision.SETTLE
        async with self._workflows.database.transaction() as tx:
            record = await self._workflows.record(task_id)
            return await doubts.resolve(
                tx,
                Resolve(
                    task_id=task_id,
                    credits=record.price_credits if settles else None,
                    status=Status.COMPLETED if settles else Status.FAILED,
                    failure=None if settles else Failure(code=Code.OUTCOME_UNKNOWN, message="Released."),
                    reason=resolution.reason,
                    actor=f"operator:{resolution.actor}",
                ),
            )
