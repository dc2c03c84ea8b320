"""Memory of a card's runs: measured, told with the end of each, and made free when it wasn't enough."""

import structlog

from activities.card_desk import CardDesk, Measured
from infra.hosts.journal import Entry
from workflows.contracts.failures import Code
from workflows.contracts.generation import RunOutcome
from workflows.contracts.hosts import RunMemory
from workflows.contracts.states import RunVerdict

KEPT_MAX = 100
"""Measured runs that no report took yet; with the API away for longer the oldest are forgotten."""
LOOKS_MIN = 3
"""A run that was looked at less often was over before its peak could be seen: at five a second, within 0.4 s."""

log = structlog.get_logger(__name__)


def was_short(outcome: RunOutcome) -> bool:
    """Whether the run ended because memory was not enough."""
    return outcome.failure is not None and outcome.failure.code is Code.OUT_OF_MEMORY


def begin(desk: CardDesk) -> None:
    """A run is about to begin, or goes on under us."""
    if desk.meter is not None:
        desk.meter.begin()


def end(desk: CardDesk, entry: Entry, outcome: RunOutcome) -> None:
    """Keep what the run took for the next report. A run that didn't come to its end proves no peak."""
    seen = desk.meter.end() if desk.meter is not None else None
    is_seen = outcome.verdict is RunVerdict.FINISHED and seen is not None and seen.looks >= LOOKS_MIN
    if not is_seen and not was_short(outcome):
        return
    seen = seen or Measured(baseline_mib=0, peak_mib=0, looks=0)
    desk.measured.append(
        RunMemory(
            task_id=entry.task_id,
            lease_id=entry.lease_id,
            fence=entry.fence,
            baseline_mib=seen.baseline_mib,
            peak_mib=seen.peak_mib,
            out_of_memory=was_short(outcome),
        )
    )
    del desk.measured[:-KEPT_MAX]


async def make_room(desk: CardDesk, outcome: RunOutcome) -> None:
    """After a run that was short of memory the engine drops what it has loaded.

    One that doesn't say so, or whose next run is short again, isn't trusted to be sound: it is started anew.
    """
    if not was_short(outcome):
        desk.short_in_row = 0 if outcome.verdict is RunVerdict.FINISHED else desk.short_in_row
        return
    desk.short_in_row += 1
    is_free = await desk.engine.free()
    log.warning("engine_short_of_memory", card=desk.card_uuid, is_free=is_free, in_row=desk.short_in_row)
    if not is_free or desk.short_in_row > 1:
        await desk.keeper.restart()
        desk.short_in_row = 0
