"""Following one run on one card, with cancels carried to it."""

import asyncio
import contextlib
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows.contracts.generation import RunOrder, RunOutcome
from workflows.contracts.states import Decision
from workflows.definitions import steps, story
from workflows.definitions.state import CourseState

JOURNAL_FIRST = "journal-first"
"""Courses that began before ask the card's own slot, and wait for whatever runs there."""
LOOK_BEFORE_STOP = timedelta(seconds=5)
"""A stop asked for before a look began waits this long, so that a live host has taken the look up: a task
that nobody took is taken back by the server at once, and nothing would have been looked at or stopped."""


async def follow(state: CourseState, order: RunOrder, *, may_stop: bool = True) -> RunOutcome | None:
    """Start the run, or with `attach_only` look for it, and return the host's word; None when there was none.

    A cancel, or an operator's decision to release, is carried to the card once; the host's word still decides.
    With `may_stop` False neither is: nobody asks for a stop any more.
    """
    card_label = state.lease.card_label if state.lease else order.card_uuid
    if order.attach_only and workflow.patched(JOURNAL_FIRST):
        outcome, is_there = await steps.look_in_journal(order, card_label=card_label)
        if outcome is not None or not is_there:
            return outcome
    handle = steps.run_on_card(order, run_s_max=state.request.model.run_s_max, card_label=card_label)
    if may_stop and order.attach_only and _stop_wanted(state):
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                handle.done, timeout=LOOK_BEFORE_STOP, timeout_summary="look before stop"
            )
    await workflow.wait_condition(lambda: handle.done() or (may_stop and _stop_wanted(state)))
    if not handle.done():
        handle.cancel()
    try:
        return await handle
    except ActivityError as error:
        story.tell(state, f"no word from the card: {error.cause or error}")
        return None
    except asyncio.CancelledError:
        # The word came in the very task that carried the cancel out, and the SDK keeps the cancel.
        # Another look reads it again from the host's journal.
        return None


def _stop_wanted(state: CourseState) -> bool:
    """Whether the run is of no use any more. To settle never stops one: its result is what would be paid for."""
    if state.resolution is not None:
        return state.resolution.decision is Decision.RELEASE
    return state.cancel is not None and state.request.model.cancellable
