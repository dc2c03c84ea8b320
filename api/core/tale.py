"""A generation's events as its owner may read them: each with the standing that it led to."""

from datetime import datetime, timedelta
from typing import Any

from api.present import evidence, standing
from infra.generations import GenerationRecord
from infra.generations.doubts import Evidence
from infra.generations.following import Event
from workflows.contracts import timeouts
from workflows.contracts.failures import Code
from workflows.contracts.states import CreditStatus, Phase, Status

_PHASES = {
    "held": Phase.WAITING,
    "placed": Phase.PLACED,
    "running": Phase.RUNNING,
    "inspecting": Phase.INSPECTING,
    "keeping": Phase.KEEPING,
    "kept": Phase.KEEPING,
    "requeued": Phase.WAITING,
    "unknown": Phase.RECONCILING,
}
_ENDS = frozenset({"settled", "released", "delivered_late"})
_OTHERS = frozenset({"looked", "cancel_requested", "late_look_ended"})
_AWAITED = ("since", "reason", "awaiting", "next_look_at", "resolve_by", "raised")


class Tale:
    """Events added in order; whoever begins in the middle adds the earlier ones unheard.

    Attributes:
        last: Id of the last event that was added.
        over: Whether the generation is over for its owner. What is found later is told as well, when asked for.
    """

    def __init__(self, record: GenerationRecord) -> None:
        """Nothing happened yet."""
        self.last = 0
        self.over = False
        self._record = record
        self._phase, self._status, self._credit = Phase.WAITING, Status.PENDING, CreditStatus.HELD
        self._charged = 0
        self._error: str | None = None
        self._unknown: dict[str, Any] | None = None
        self._looks = 0
        self._late: dict[str, Any] | None = None

    def add(self, event: Event) -> dict[str, Any] | None:
        """What is told of an event; None of one that is nobody's business outside."""
        self.last = max(self.last, event.id)
        if event.kind in _PHASES:
            self._phase = _PHASES[event.kind]
            if event.kind == "unknown":
                self._doubt(event.data)
        elif event.kind in _ENDS:
            self._end(event)
        elif event.kind not in _OTHERS:
            return None
        told = self._told(event)
        if event.kind == "looked":
            self._looked(event, told)
        elif event.kind == "late_look_ended":
            self._late = None
            told.pop("late", None)
        return told

    def _doubt(self, data: dict[str, Any]) -> None:
        self._credit = CreditStatus.UNKNOWN
        last = (self._unknown or {}).get("last_evidence")
        self._unknown = {"credits": self._record.price_credits, **{name: data.get(name) for name in _AWAITED}}
        self._unknown |= {"looks": self._looks, "last_evidence": last}

    def _looked(self, event: Event, told: dict[str, Any]) -> None:
        last = Evidence(at=event.at, source=event.data["source"], finding=event.data["finding"])
        self._looks += last.is_a_look
        told["evidence"] = evidence(last)
        if self._unknown is not None:
            # The next look is planned after this one; progress tells it.
            self._unknown |= {"looks": self._looks, "last_evidence": told["evidence"], "next_look_at": None}
            told["unknown"] = dict(self._unknown)

    def _end(self, event: Event) -> None:
        self.over = True
        self._phase = Phase.FINISHED
        self._late = None
        if event.kind == "delivered_late":
            self._status, self._error = Status.COMPLETED, None
            return
        self._status = Status(event.data["status"])
        self._credit = CreditStatus(event.data["credit_status"])
        self._charged = int(event.data["charged"])
        was_unknown, self._unknown = self._unknown is not None, None
        self._error = event.data.get("code")
        if was_unknown and self._credit is CreditStatus.RELEASED and self._error == Code.OUTCOME_UNKNOWN.value:
            self._late = {"until": _later(event.at, timeouts.LATE_LOOK)}

    def _told(self, event: Event) -> dict[str, Any]:
        told = {
            "id": self._record.task_id,
            "kind": event.kind,
            "at": event.at.isoformat(),
            "status": standing(self._status),
            "phase": self._phase.value,
            "credits": {
                "status": self._credit.value,
                "price": self._record.price_credits,
                "charged": self._charged,
            },
        }
        if self._error is not None:
            told["error"] = {"code": self._error}
        if self._unknown is not None:
            told["unknown"] = dict(self._unknown)
        if self._late is not None:
            told["late"] = self._late
        return told


def _later(moment: datetime, by: timedelta) -> str:
    return (moment + by).isoformat()
