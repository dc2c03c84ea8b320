"""What Temporal's own Web UI shows of a generation: its current details and its search attributes."""

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from workflows.contracts import names
from workflows.contracts.states import Phase
from workflows.definitions.state import CourseState

STORY_LINES_MAX = 40
"""A long unknown keeps its beginning and its latest lines."""
_STORY_HEAD = 10

_PHASE = SearchAttributeKey.for_keyword(names.SA_PHASE)
_CREDIT_STATUS = SearchAttributeKey.for_keyword(names.SA_CREDIT_STATUS)
_CARD = SearchAttributeKey.for_keyword(names.SA_CARD)

_NOT_SEARCHED = frozenset({Phase.PLACED, Phase.KEEPING})
"""Milliseconds long; each upsert is an event, and four of them cost 14 % of throughput."""


def enter(state: CourseState, phase: Phase, line: str) -> None:
    """Record the phase and show it, in one upsert that travels with the next command."""
    state.phase = phase
    tell(state, line)
    if phase in _NOT_SEARCHED:
        return
    updates: list[SearchAttributeUpdate[str]] = [_PHASE.value_set(phase.value)]
    if state.credit_status is not None:
        updates.append(_CREDIT_STATUS.value_set(state.credit_status.value))
    if state.lease is not None:
        updates.append(_CARD.value_set(state.lease.card_label))
    elif phase is Phase.WAITING:
        updates.append(_CARD.value_unset())
    workflow.upsert_search_attributes(updates)


def tell(state: CourseState, line: str) -> None:
    """Add a line to the story and refresh what the Web UI shows. Costs no event."""
    state.story.append(f"{workflow.now():%Y-%m-%d %H:%M:%S} {line}")
    if len(state.story) > STORY_LINES_MAX:
        del state.story[_STORY_HEAD]
    show(state)


def show(state: CourseState) -> None:
    """Refresh what the Web UI shows, without a new line."""
    workflow.set_current_details(_details(state))


def _details(state: CourseState) -> str:
    request = state.request
    status = state.credit_status
    lines = [
        f"**{request.price_credits} credits {status.value if status else 'not held'}** "
        f"· {request.model.model_id} {request.model.mode} · {state.phase.value}"
        + (f" · {state.lease.card_label}, fence {state.lease.fence}" if state.lease else "")
    ]
    if state.unknown is not None:
        lines.append(
            f"\n**Outcome unknown** since {state.unknown.since:%Y-%m-%d %H:%M:%S}; "
            f"awaited: {state.unknown.awaiting}; "
            f"next look {state.unknown.next_look_at:%H:%M:%S}; "
            + ("**an operator has to decide**" if state.unknown.raised else "raised to an operator")
            + f" at {state.unknown.resolve_by:%Y-%m-%d %H:%M:%S}; {state.looks} look(s) so far"
        )
    if state.late is not None:
        lines.append(
            f"\n**Released; still looking for a late result** until {state.late.until:%Y-%m-%d %H:%M:%S}; "
            f"next look {state.late.next_look_at:%Y-%m-%d %H:%M:%S}; nothing will be charged"
        )
    lines.append("")
    lines.extend(f"- {line}" for line in state.story)
    return "\n".join(lines)
