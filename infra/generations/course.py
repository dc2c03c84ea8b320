"""The steps between admission and end. Each is recorded with its event and ignored when it comes too late."""

from infra.db import Tx, load
from infra.db.errors import Refused
from workflows.contracts.generation import Advance, CancelRequest, KeepOrder, MarkUnknown

_QUERIES = load(__package__)


class ArtifactContradiction(Refused):
    """Another result was kept under this index, or the generation isn't this account's."""


async def advance(tx: Tx, step: Advance) -> None:
    """Record a later phase; an earlier one, or one after the end, is ignored.

    From `inspecting` on the run is over, and its lease ends: the card can work while the media are judged.
    """
    await tx.value(_QUERIES["advance"], task_id=step.task_id, phase=step.phase, note=step.note)


async def mark_unknown(tx: Tx, order: MarkUnknown) -> None:
    """Show that the outcome isn't known, since when, what is awaited, the next look and the latest end.

    The lease is parked: its host may still be asked and may deliver; the card takes other work when clean.
    Ignored after the end, and where evidence that ended an earlier doubt led on to inspection.

    Raises:
        NoSuchRow: no such generation.
    """
    await tx.value(_QUERIES["mark_unknown"], order=order.model_dump_json())


async def request_cancel(tx: Tx, task_id: str, cancel: CancelRequest) -> None:
    """Keep who first asked to cancel, and why. Ignored after the end."""
    await tx.value(_QUERIES["request_cancel"], task_id=task_id, reason=cancel.reason, actor=cancel.actor)


async def keep(tx: Tx, order: KeepOrder) -> None:
    """Record artifacts for their owner, to be deleted after the days that the model's manifest gave.

    With them, why outputs that were asked for aren't delivered.

    Raises:
        ArtifactContradiction: something else was kept under an index, or there is no such generation.
    """
    artifacts = "[" + ",".join(artifact.model_dump_json() for artifact in order.artifacts) + "]"
    refused = "[" + ",".join(one.model_dump_json() for one in order.refused) + "]"
    recorded = await tx.value(
        _QUERIES["keep"],
        task_id=order.task_id,
        account_id=order.account_id,
        artifacts=artifacts,
        refused=refused,
    )
    if recorded != len(order.artifacts):
        raise ArtifactContradiction
