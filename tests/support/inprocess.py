"""Workflows without a workflow server: the same promises, kept by a few lines on the same database.

It stands in for the orchestrator where a test is about HTTP. Each generation waits until the test ends it.
"""

import asyncio

from infra import generations
from infra.db import Database
from infra.temporal.generations import AdmissionUnanswered, NoOpenCourse, TemporalAway
from workflows.contracts import timeouts
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Admission, CancelReply, CancelRequest, GenerationRequest, Release
from workflows.contracts.states import CancelAnswer, Phase, Status


class InProcessGenerations:
    """Implements `api.core.gateway.Generations`.

    Attributes:
        admitted: Every request that came, in order.
        answers: What the database answered.
        silent: While set, nobody answers an admission, as without an orchestrator.
        away: While set, the workflow server can't be reached.
        lost: While set, the workflows are gone: terminated, or their database was.
        gate: Admissions wait for it before they hold.
        lose_answer: While set, the hold is taken and its answer is lost.
    """

    def __init__(self, database: Database, *, in_flight_max: int = generations.IN_FLIGHT_MAX) -> None:
        """`database` is the test's own pool, so that it works while the API's is cut off."""
        self._database = database
        self._in_flight_max = in_flight_max
        self.admitted: list[GenerationRequest] = []
        self.answers: list[Admission] = []
        self.silent = False
        self.away = False
        self.lost = False
        self.lose_answer = False
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
        async with self._database.transaction() as tx:
            answer = await generations.admit(tx, request, in_flight_max=self._in_flight_max)
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
        async with self._database.transaction() as tx:
            await generations.request_cancel(tx, task_id, request)
        record = await self._record(task_id)
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
        async with self._database.transaction() as tx:
            closing = await generations.release(tx, order)
        return CancelReply(task_id=task_id, answer=CancelAnswer.CANCELED, credit_status=closing.credit_status)

    async def reachable(self) -> bool:
        """Unless `away`."""
        return not self.away

    async def _record(self, task_id: str) -> generations.GenerationRecord:
        account_id = next(request.account_id for request in self.admitted if request.task_id == task_id)
        async with self._database.read() as reader:
            record = await generations.find(reader, account_id=account_id, task_id=task_id)
        assert record is not None
        return record
