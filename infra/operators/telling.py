"""Explaining one generation: what happened, what is awaited, and what an operator may do about it now."""

from typing import Any

from infra.operators.records import Story
from infra.temporal.courses import Fault, Look, Standing
from workflows.contracts.message import Message
from workflows.contracts.states import CreditStatus, Status

TEXT_SHOWN_MAX = 40
"""Of a parameter: longer texts are a caller's own words, and are not shown."""
_SHOWN = (
    "task_id", "account_id", "operation_id", "model_id", "mode", "phase", "status", "credit_status",
    "price_credits", "charged_credits", "balance_held", "balance_closed", "created_at", "admitted_at",
    "started_at", "finished_at", "expires_at", "failure", "cancel", "is_canary", "made_by", "key_id",
    "late_at", "version",
)  # fmt: skip
_UNKNOWN = ("unknown_since", "unknown_reason", "awaiting", "next_look_at", "resolve_by", "raised")


class Explanation(Message):
    """The whole story of a generation.

    Attributes:
        generation: Its row.
        request: What was asked for, without the caller's own words.
        unknown: Why nobody knows its outcome, since when, and what is awaited; None when that isn't so.
        looks: Each question about its run, with the answer.
        events: Everything that happened, in order.
        transfers: Its hold and what became of it, with adjustments and losses that refer to it.
        leases: Cards that it had, by their public label.
        queue: Since when it waits for a card, and how many are before it; None when it doesn't.
        artifacts: What is kept.
        refused: What was asked for and isn't delivered.
        uploads: What hosts were allowed to leave in the store.
        late_look: The search for a result after a release.
        acts: What operators did about it.
        findings: What sweeps found about it.
        messages: What was told to the outside.
        workflow: Where its workflow stands; None when the server did not answer.
        awaited: What it waits for, as sentences.
        possible: What an operator may do now, as commands.
    """

    generation: dict[str, Any]
    request: dict[str, Any]
    unknown: dict[str, Any] | None
    looks: list[dict[str, Any]]
    events: list[dict[str, Any]]
    transfers: list[dict[str, Any]]
    leases: list[dict[str, Any]]
    queue: dict[str, Any] | None
    artifacts: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    uploads: list[dict[str, Any]]
    late_look: dict[str, Any] | None
    acts: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    workflow: dict[str, Any] | None
    awaited: list[str]
    possible: list[str]


def explain(story: Story, look: Look | None, fault: Fault | None, *, ui_url: str | None) -> Explanation:
    """Put the parts together.

    Args:
        story: What the database knows.
        look: What the server knows; None when it didn't answer.
        fault: Why the workflow gets no further, when it doesn't.
        ui_url: Of the workflow in Temporal's Web UI, when there is one.
    """
    row = story.row
    is_unknown = row["credit_status"] == CreditStatus.UNKNOWN
    return Explanation(
        generation={name: row.get(name) for name in _SHOWN},
        request=_request(story.request),
        unknown={name: row[name] for name in _UNKNOWN} if is_unknown else None,
        looks=[{"at": event["at"], **event["data"]} for event in story.events if event["kind"] == "looked"],
        events=story.events,
        transfers=story.transfers,
        leases=story.leases,
        queue=story.ticket,
        artifacts=story.artifacts,
        refused=story.refused,
        uploads=story.uploads,
        late_look=story.late_look,
        acts=story.acts,
        findings=story.findings,
        messages=story.messages,
        workflow=_workflow(look, fault, ui_url),
        awaited=_awaited(story, look, fault),
        possible=_possible(story, look),
    )


def _request(request: dict[str, Any]) -> dict[str, Any]:
    model = request["model"]
    return {
        "model": {name: model[name] for name in ("model_id", "digest", "mode", "capability", "engine")},
        "release_unknown": model.get("release_unknown", False),
        "parameters": {name: _parameter(name, value) for name, value in request["parameters"].items()},
        "fields": sorted(request["fields"]),
        "inputs": [
            {"sha256": one["blob"]["sha256"], "size": one["blob"]["size"], "mime": one["blob"]["mime"],
             "width": one["width"], "height": one["height"]}
            for one in request["inputs"]
        ],
        "outputs": request["outputs"],
        "price": request.get("price"),
        "attempt": request["attempt"],
        "fingerprint": request["fingerprint"],
    }  # fmt: skip


def _parameter(name: str, value: object) -> object:
    if isinstance(value, str) and ("prompt" in name or len(value) > TEXT_SHOWN_MAX):
        return f"({len(value)} characters)"
    return value


def _workflow(look: Look | None, fault: Fault | None, ui_url: str | None) -> dict[str, Any] | None:
    if look is None:
        return None
    return {
        "standing": look.standing.value,
        "status": look.status,
        "run_id": look.run_id,
        "task_attempt": look.task_attempt,
        "fault": f"{fault.kind}: {fault.message}" if fault else None,
        "web_ui": ui_url,
    }


def _awaited(story: Story, look: Look | None, fault: Fault | None) -> list[str]:
    row, found = story.row, []
    if look is None:
        found.append("The workflow server did not answer.")
    if fault is not None:
        found.append(f"A repair of the code: {fault.kind}: {fault.message}")
    if row["status"] != Status.PENDING:
        if story.late_look and story.late_look["ended_at"] is None:
            found.append(
                f"A late result, until {story.late_look['until']}; next look {story.late_look['next_look_at']}."
            )
        return found
    if look is not None and look.standing in (Standing.ABSENT, Standing.BROKEN_OFF):
        found.append("The next sweep: it takes the course up again.")
    if row["credit_status"] == CreditStatus.UNKNOWN:
        found.append(f"{row['awaiting'] or 'evidence'}; next look {row['next_look_at']}.")
        found.append(
            "An operator's decision: it is past its date."
            if row["raised"]
            else f"It is raised to an operator at {row['resolve_by']}."
        )
    elif story.ticket is not None:
        found.append(f"A card: {story.ticket['ahead']} are before it; it expires at {row['expires_at']}.")
    elif story.leases and story.leases[-1]["state"] != "ended":
        found.append(f"The run on {story.leases[-1]['card']}, fence {story.leases[-1]['fence']}.")
    return found


def _possible(story: Story, look: Look | None) -> list[str]:
    row = story.row
    task_id = row["task_id"]
    if row["status"] != Status.PENDING:
        if row["charged_credits"]:
            most = row["charged_credits"]
            return [f"adjust with task_id {task_id}: give back up to {most} credits, less what was before"]
        return []
    if look is not None and look.standing in (Standing.ABSENT, Standing.BROKEN_OFF):
        found = ["reconcile: take the course up again at once"]
    else:
        found = []
    completed = look is not None and look.standing is Standing.COMPLETED
    if row["credit_status"] == CreditStatus.UNKNOWN or completed:
        found += ["resolve: settle, when it was delivered or did run", "resolve: release, when it did not"]
    return found or ["nothing: it goes on by itself"]
