"""Messages about an outcome that nobody knows: what is asked, what it says, and what follows after a release."""

from enum import StrEnum

from pydantic import AwareDatetime

from workflows.contracts.failures import Failure
from workflows.contracts.generation import LeaseGrant
from workflows.contracts.media import BlobRef
from workflows.contracts.message import Message, Words
from workflows.contracts.states import Status


class Source(StrEnum):
    """Who was asked, in the order in which they are asked."""

    HOST = "host"
    """The card's host: its journal, then its engine's queue and history."""
    STORE = "store"
    """The object store: what the host was allowed to leave there."""
    OPERATOR = "operator"
    """A person, who decided."""


class Finding(StrEnum):
    """What an answer means."""

    FINISHED = "finished"
    FAILED = "failed"
    """Over without a result, or proven never to have run."""
    CANCELED = "canceled"
    UNKNOWN = "unknown"
    """Whoever was asked doesn't know."""
    NO_WORD = "no_word"
    """Whoever was asked didn't answer."""
    DECIDED = "decided"
    """An operator said what is to be booked."""


class Look(Message):
    """One question about a run, and its answer. Recorded, whatever it said.

    Attributes:
        task_id: The generation.
        look_id: Names this look, so that it is recorded once.
        source: Who was asked.
        asked: What, in words.
        finding: What the answer means.
        said: The answer, for operators.
        lease_id: Whose run it is about.
        fence: Of that lease.
    """

    task_id: str
    look_id: str
    source: Source
    asked: Words
    finding: Finding
    said: Words
    lease_id: str
    fence: int


class StoreQuestion(Message):
    """Is everything that was asked for in the store, as it was granted under this lease?"""

    task_id: str
    lease_id: str
    outputs: int


class StoreAnswer(Message):
    """What the store has of a run.

    Attributes:
        files: One for each output, in order; only when all of them are there, whole.
        said: One line: what was granted, and what of that is there.
    """

    files: tuple[BlobRef, ...] = ()
    said: str


class Resolve(Message):
    """Book what an operator decided about an unknown outcome, together with the record of the act.

    Attributes:
        task_id: The generation.
        credits: What is paid; None releases.
        status: How a release ends it.
        failure: Why, for its caller; only of a release.
        reason: The operator's.
        actor: The operator.
    """

    task_id: str
    credits: int | None
    status: Status
    failure: Failure | None
    reason: Words
    actor: Words


class LateLook(Message):
    """A search that goes on after a release without an outcome.

    Attributes:
        until: When it ends.
        next_look_at: When the next look is planned.
        lease: The one in doubt.
    """

    until: AwareDatetime
    next_look_at: AwareDatetime
    lease: LeaseGrant


class LateStep(Message):
    """A step of that search: a look is planned, it ends in vain, or a result is delivered.

    Attributes:
        task_id: The generation.
        next_look_at: When the next look is planned.
        ending: How it ends, as the table `late_look` has it.
        actor: Who delivers.
    """

    task_id: str
    next_look_at: AwareDatetime | None = None
    ending: str | None = None
    actor: str = "workflow:late"
