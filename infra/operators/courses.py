"""Deciding an unknown outcome: by its workflow where one is open, else in the database itself."""

from typing import Protocol

from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from infra.db import Database, load
from infra.db.errors import AlreadyFinal, NothingToResolve, ReasonMissing, Refused
from infra.generations import doubts
from infra.operators.reading import brief
from infra.operators.records import Brief
from infra.temporal import courses, generations
from infra.temporal.courses import Fault, Look, Standing
from workflows.contracts.evidence import Resolve
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Closing, Resolution
from workflows.contracts.states import CreditStatus, Decision, Status

_QUERIES = load("infra.operators")
_CONTRADICTION = "its workflow ran to its end, and the hold is open still"
_REFUSALS: dict[str | None, type[Refused]] = {
    "not_unknown": NothingToResolve,
    "reason_missing": ReasonMissing,
    "already_final": AlreadyFinal,
}


class DecisionPending(Refused):
    """It is decided already, and the decision is being carried out."""


class Courses(Protocol):
    """What an operator asks of workflows. Errors are those of `infra.temporal.generations`."""

    async def look(self, task_id: str) -> Look:
        """Where the generation's latest workflow stands."""
        ...

    async def fault(self, task_id: str, look: Look) -> Fault | None:
        """Why that workflow gets no further; None when it does."""
        ...

    async def resolve(self, task_id: str, resolution: Resolution) -> Closing:
        """Hand a decision to an open workflow, and wait for its booking."""
        ...


class ServerCourses:
    """The workflows of a server."""

    def __init__(self, client: Client) -> None:
        """`client` of the namespace."""
        self._client = client

    async def look(self, task_id: str) -> Look:
        """Where the generation's latest workflow stands.

        Raises:
            TemporalAway: The server did not answer.
        """
        try:
            return await courses.look(self._client, task_id)
        except (RPCError, RuntimeError) as error:
            raise generations.TemporalAway(str(error)) from error

    async def fault(self, task_id: str, look: Look) -> Fault | None:
        """Why the workflow gets no further; None when it does.

        Raises:
            TemporalAway: The server did not answer.
        """
        if not look.is_stuck:
            return None
        try:
            return await courses.last_fault(self._client, task_id, look.run_id)
        except (RPCError, RuntimeError) as error:
            raise generations.TemporalAway(str(error)) from error

    async def resolve(self, task_id: str, resolution: Resolution) -> Closing:
        """Hand a decision to an open workflow, and wait for its booking.

        Raises:
            NothingToResolve, ReasonMissing, DecisionPending: The workflow refused it.
            NoOpenCourse: It ended meanwhile.
            TemporalAway: No answer; the decision may have been taken.
        """
        try:
            return await generations.resolve(self._client, task_id, resolution)
        except WorkflowUpdateFailedError as error:
            kind = error.cause.type if isinstance(error.cause, ApplicationError) else None
            raise _REFUSALS.get(kind, DecisionPending)(str(error.cause)) from error


async def decide(database: Database, workflows: Courses, task_id: str, resolution: Resolution) -> Closing:
    """Carry an operator's decision out. Repeated by the same operator, it answers what was booked.

    Args:
        database: Where the hold is.
        workflows: Who is asked first.
        task_id: The generation.
        resolution: With the operator's bare name; the books call him `operator:<name>`.

    Raises:
        NoSuchRow: There is no such generation.
        AlreadyFinal: It is over, and not by this decision.
        NothingToResolve: Its outcome isn't in doubt.
        DecisionPending: Somebody decided before.
        ReasonMissing: No reason.
        TemporalAway: No answer; ask for the generation before repeating it.
    """
    async with database.read() as reader:
        found = await brief(reader, task_id)
    if found.status == Status.PENDING:
        standing = (await workflows.look(task_id)).standing
        if standing is Standing.OPEN:
            if found.credit_status != CreditStatus.UNKNOWN:
                raise NothingToResolve
            try:
                return await workflows.resolve(task_id, resolution)
            except generations.NoOpenCourse:
                return await _book(database, found, resolution, contradicts=False)
        return await _book(database, found, resolution, contradicts=standing is Standing.COMPLETED)
    return await _book(database, found, resolution, contradicts=False)


async def _book(database: Database, found: Brief, resolution: Resolution, *, contradicts: bool) -> Closing:
    """Where no workflow is open, the database itself books it, under the generation's lock.

    A workflow that is started again meanwhile finds the end, and books nothing of its own.
    """
    settles = resolution.decision is Decision.SETTLE
    order = Resolve(
        task_id=found.task_id,
        credits=found.price_credits if settles else None,
        status=Status.COMPLETED if settles else Status.FAILED,
        failure=None
        if settles
        else Failure(
            code=Code.OUTCOME_UNKNOWN, message="The outcome stayed unknown and was released by decision."
        ),
        reason=resolution.reason,
        actor=f"operator:{resolution.actor}",
    )
    async with database.transaction() as tx:
        if contradicts:
            await tx.run(_QUERIES["raise_contradiction"], task_id=found.task_id, reason=_CONTRADICTION)
        return await doubts.resolve(tx, order)
