"""A generation as its owner sees it. Nothing here names a host, an engine or an upstream."""

from datetime import datetime
from typing import Any

from api import errors
from infra.generations import GenerationRecord
from infra.generations.doubts import Doubt, Evidence
from workflows.contracts.evidence import Finding, Source
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import CancelReply
from workflows.contracts.states import CreditStatus, Phase, Status

_CPU = "CPU"
_ENDED: dict[Status, Failure] = {
    Status.FAILED: Failure(code=Code.UPSTREAM_FAILED, message="The generation failed."),
    Status.CANCELED: Failure(code=Code.CANCELED, message="Canceled as asked."),
    Status.EXPIRED: Failure(code=Code.EXPIRED, message="It had not started before its deadline."),
}
"""Shown when a record carries no failure of its own."""
_SAID = {
    (Source.HOST, Finding.FINISHED): "The run finished.",
    (Source.HOST, Finding.FAILED): "The run gave no result.",
    (Source.HOST, Finding.CANCELED): "The run was stopped.",
    (Source.HOST, Finding.UNKNOWN): "The card's host can't say.",
    (Source.HOST, Finding.NO_WORD): "The card's host gave no answer.",
    (Source.STORE, Finding.FINISHED): "All results are stored.",
    (Source.STORE, Finding.UNKNOWN): "Not all results are stored.",
    (Source.STORE, Finding.NO_WORD): "The store gave no answer.",
    (Source.OPERATOR, Finding.DECIDED): "An operator decided.",
}


def headers(record: GenerationRecord, *, asked_as: str | None = None) -> dict[str, str]:
    """What every answer about a generation carries; a creation's bears the id that it was asked with."""
    return {
        "x-ic-operation-id": asked_as or record.request.operation_id,
        "x-ic-credit-status": record.credit_status.value,
        "Cache-Control": "no-store",
    }


def failure_of(record: GenerationRecord) -> Failure | None:
    """Why it ended without a result; None while it runs and when it completed."""
    if record.status in {Status.PENDING, Status.COMPLETED}:
        return None
    return record.failure or _ENDED[record.status]


def duplicate(record: GenerationRecord, asked_as: str) -> dict[str, str]:
    """What a creation's answer says besides where the task was there already, made by another operation."""
    return {} if record.operation_id == asked_as else {"possible_duplicate_of": record.task_id}


def accepted(record: GenerationRecord) -> dict[str, Any]:
    """The answer to a creation: what can't change, so that a repetition has the same bytes, also after the end."""
    return {"id": record.task_id, "status": Status.PENDING.value, "created": _seconds(record.created_at)}


def generation(record: GenerationRecord, *, content_url: str) -> dict[str, Any]:
    """The answer to a query. `content_url` is the task's content address on the caller's surface."""
    answer = accepted(record) | {"status": standing(record.status)}
    compute = _compute(record)
    if compute is not None:
        answer["compute"] = compute
    answer["phase"] = record.phase.value
    answer["credits"] = credits_of(record)
    if record.phase is Phase.RUNNING and record.fraction is not None:
        answer["progress"] = progress(record.fraction)
    if record.queue_ahead is not None:
        answer["queue"] = {
            "position": record.queue_ahead + 1,
            "eta_s": None if record.eta_s is None else round(record.eta_s, 1),
        }
    if record.status is Status.PENDING and record.phase in {Phase.WAITING, Phase.PLACED}:
        answer["expires_at"] = record.expires_at.isoformat()
    if record.credit_status is CreditStatus.UNKNOWN:
        answer["unknown"] = unknown(record)
    if record.credit_status is CreditStatus.RELEASED and record.doubt is not None:
        answer |= _late(record.doubt)
    failure = failure_of(record)
    if failure is not None:
        answer["error"] = errors.body(failure, operation_id=record.request.operation_id, task_id=record.task_id)
    if record.status is Status.COMPLETED:
        answer["data"] = [
            {
                "url": f"{content_url}?index={artifact.index}",
                "role": artifact.role,
                "mime": artifact.mime,
                "width": artifact.width,
                "height": artifact.height,
                "expires_at": artifact.expires_at.isoformat(),
            }
            for artifact in record.artifacts
        ]
        answer |= partial(record)
    return answer


def credits_of(record: GenerationRecord) -> dict[str, Any]:
    """What the generation costs, and what of that was paid. What is neither held nor paid went back."""
    return {
        "status": record.credit_status.value,
        "price": record.price_credits,
        "charged": record.charged_credits,
    }


def partial(record: GenerationRecord) -> dict[str, Any]:
    """What was asked for and not delivered, for an answer that shows results; nothing when all was."""
    return {} if record.partial is None else {"partial": record.partial.model_dump(mode="json")}


def statement(record: GenerationRecord) -> dict[str, Any]:
    """Of a generation that is over: what was paid, and what was asked for and not delivered."""
    return {"credits": credits_of(record)} | partial(record)


def cancel(record: GenerationRecord, reply: CancelReply) -> dict[str, Any]:
    """The answer to a cancel: what became of it, and of results and credits."""
    return {
        "id": record.task_id,
        "status": reply.answer.value,
        "credits": credits_of(record) | {"status": reply.credit_status.value, "released": _released(record)},
        "delivered": len(record.artifacts) if record.status is Status.COMPLETED else 0,
    }


def _released(record: GenerationRecord) -> int:
    """Credits of the price that went back; none while they are held."""
    return record.price_credits - record.charged_credits if record.status.is_final else 0


def progress(fraction: float) -> float:
    """How far a run is; 1 only once the result is stored."""
    return round(min(fraction, 0.99), 3)


def standing(status: Status) -> str:
    """Three words for clients; `error.code` tells a cancel or an expiry from a failure."""
    return status.value if status in {Status.PENDING, Status.COMPLETED} else Status.FAILED.value


def _compute(record: GenerationRecord) -> dict[str, Any] | None:
    if record.card_label is None:
        return None
    output = record.request.outputs[0]
    return {
        "kind": "cpu" if record.gpu_model == _CPU else "gpu",
        "phase": record.phase.value,
        "resource": record.card_label,
        "gpu_model": record.gpu_model,
        "resolution": f"{output.width}x{output.height}",
    }


def unknown(record: GenerationRecord) -> dict[str, Any]:
    """Of an outcome that nobody knows: what is held, since when, what is being done, and until when."""
    doubt = record.doubt or Doubt()
    return {
        "credits": record.price_credits,
        "since": _iso(record.unknown_since),
        "reason": record.unknown_reason,
        "awaiting": record.awaiting,
        "next_look_at": _iso(record.next_look_at),
        "resolve_by": _iso(record.resolve_by),
        "raised": record.raised,
        "looks": doubt.looks,
        "last_evidence": evidence(doubt.last) if doubt.last is not None else None,
    }


def evidence(last: Evidence) -> dict[str, Any]:
    """An answer about a run, in public words: what hosts and operators said themselves is for operators."""
    return {"at": last.at.isoformat(), "source": last.source.value, "said": _SAID[last.source, last.finding]}


def _late(doubt: Doubt) -> dict[str, Any]:
    """Of one released without an outcome: until when a result would still be delivered, free of charge."""
    if doubt.late_until is None:
        return {}
    return {"late": {"until": _iso(doubt.late_until), "next_look_at": _iso(doubt.late_next_look_at)}}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
