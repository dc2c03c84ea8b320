"""The messages of the sweep: what is looked for, what was found, and what was done about it."""

from enum import StrEnum

from pydantic import Field

from workflows.contracts.message import Message, Words

FINDINGS_SHOWN_MAX = 200
"""In one answer; all of them are recorded in the database, and histories stay small."""


class Kind(StrEnum):
    """What a sweep finds. The words are also those of the metrics."""

    HOLD_WITHOUT_OPEN_WORKFLOW = "hold_without_open_workflow"
    """Credits are held, and the workflow was terminated, timed out or failed."""
    ROW_WITHOUT_WORKFLOW = "row_without_workflow"
    """Credits are held, and the server knows of no workflow: lost, or deleted by retention."""
    ROW_CONTRADICTS_WORKFLOW = "row_contradicts_workflow"
    """Credits are held, though the workflow ran to its end."""
    LATE_LOOK_WITHOUT_WORKFLOW = "late_look_without_workflow"
    """A result is still looked for after a release, and no workflow looks."""
    MONEY_STEP_REFUSED = "money_step_refused"
    """An open workflow gets no further: the database refuses a step of it, each time."""
    WORKFLOW_TASK_FAILING = "workflow_task_failing"
    """An open workflow gets no further for another fault of its code."""
    WORKFLOW_WITHOUT_ROW = "workflow_without_row"
    """A workflow runs of a generation that the database doesn't know."""
    WORKFLOW_AFTER_END = "workflow_after_end"
    """A workflow runs on though its generation is over, and looks for no late result."""
    LOT_DUE = "lot_due"
    """Credits are past their date and not booked as lost."""
    ARTIFACT_WITHOUT_OWNER = "artifact_without_owner"
    """A result is kept of a generation that ended without delivering it."""
    CLAIM_WITHOUT_OWNER = "claim_without_owner"
    """A claim on bytes whose request is over, or an input past its time."""
    BLOB_WITHOUT_OWNER = "blob_without_owner"
    """Bytes are stored that nobody claims."""
    BYTES_WITHOUT_ROW = "bytes_without_row"
    """Bytes are stored that the database doesn't know."""

    @property
    def needs_a_person(self) -> bool:
        """Whether no rule repairs it."""
        return self in _FOR_PERSONS


_FOR_PERSONS = frozenset(
    (
        Kind.ROW_CONTRADICTS_WORKFLOW,
        Kind.MONEY_STEP_REFUSED,
        Kind.WORKFLOW_TASK_FAILING,
        Kind.WORKFLOW_AFTER_END,
    )
)


class Finding(Message):
    """One thing that is wrong.

    Attributes:
        kind: What.
        subject: Where: a task's id, an account's, or `store`.
        detail: What was seen, as a sentence.
        remedy: What the rule does about it, or who has to.
        repaired: Whether that was done; never in a dry run.
    """

    kind: Kind
    subject: str
    detail: Words
    remedy: str
    repaired: bool = False


class SweepOrder(Message):
    """How to sweep.

    Attributes:
        dry_run: Only say what would be done; nothing changes, and nothing is recorded.
        actor: Who asked.
        young_s: What is younger is left alone: it may be in the middle of its admission.
    """

    dry_run: bool = False
    actor: Words = "schedule"
    young_s: float = 30.0


class SweepPart(Message):
    """The answer of one step.

    Attributes:
        looked_at: How many rows or workflows were looked at.
        findings: The first of what was found.
        more: How many further ones were.
    """

    looked_at: int = 0
    findings: tuple[Finding, ...] = ()
    more: int = 0


class SweepReport(Message):
    """A whole sweep.

    Attributes:
        dry_run: Whether nothing was changed.
        looked_at: Of each step, how many rows or workflows were looked at.
        findings: What was found, step by step.
        more: How many findings are left out here.
        put_off: Steps that could not be done now, and why; they are done the next time.
    """

    dry_run: bool
    looked_at: dict[str, int]
    findings: tuple[Finding, ...] = ()
    more: int = 0
    put_off: dict[str, str] = Field(default_factory=dict)

    @property
    def for_persons(self) -> tuple[Finding, ...]:
        """Findings that no rule repairs."""
        return tuple(finding for finding in self.findings if finding.kind.needs_a_person)
