"""Runs that nobody waits for: found, stopped and closed, so that their card becomes free."""

import asyncio
import time

import structlog

from activities import card_supply
from activities.card_desk import CardDesk
from infra.engines.states import RunState
from infra.hosts.client import ApiAway, ApiRefused
from infra.hosts.journal import Entry, JournalUnwritable
from infra.orders import OrderRefused
from workflows.contracts.hosts import OrderRequest, StaleLease

LOOK_EACH_S = 5.0
ANSWER_WITHIN_S = 5.0
ENGINE_WITHIN_S = 30.0
"""An engine that isn't up by then is settled later; its keeper goes on trying."""
STOP_EACH_S = 0.5

log = structlog.get_logger(__name__)


async def settle_at_start(desk: CardDesk) -> bool:
    """Stop what the engine works on and the journal doesn't know. True when the engine has nothing at all.

    Runs that the journal knows go on: their generation's next try attaches to them, and `keep_settling`
    ends those that nobody waits for.
    """
    deadline = time.monotonic() + ENGINE_WITHIN_S
    while (probe := await desk.engine.probe()) is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    known = {entry.run_id for entry in await asyncio.to_thread(desk.journal.open_runs, desk.card_uuid)}
    for run_id in probe.runs:
        if run_id not in known:
            log.warning("stray_run", run_id=run_id)
            await _stop(desk, run_id)
    return not known


async def keep_settling(desk: CardDesk) -> None:
    """Look after open entries whose step isn't here, until canceled."""
    while True:
        for entry in await asyncio.to_thread(desk.journal.open_runs, desk.card_uuid):
            if (entry.task_id, entry.fence) not in desk.active and await _nobody_waits(desk, entry):
                await _close(desk, entry)
        await asyncio.sleep(LOOK_EACH_S)


async def _nobody_waits(desk: CardDesk, entry: Entry) -> bool:
    """True when the API says that the lease is over. Silence is no answer, nor is that the card is another's."""
    request = OrderRequest(
        task_id=entry.task_id,
        lease_id=entry.lease_id,
        card_uuid=entry.card_uuid,
        fence=entry.fence,
        boot_id=desk.boot_id,
        attach_only=True,
    )
    if not desk.owned.is_set():
        return False
    try:
        answer = await desk.client.order(request, within_s=ANSWER_WITHIN_S)
    except (ApiAway, ApiRefused):
        return False
    except OrderRefused as refusal:
        card_supply.note_refusal(desk, entry, refusal)
        return False
    return isinstance(answer, StaleLease) and not answer.stray


async def _close(desk: CardDesk, entry: Entry) -> None:
    if (entry.task_id, entry.fence) in desk.active:
        return  # its step came while we asked
    log.info("run_given_up", task_id=entry.task_id, fence=entry.fence)
    if not await _stop(desk, entry.run_id):
        return
    try:
        await asyncio.to_thread(desk.journal.close_run, entry, None)
    except JournalUnwritable as error:
        log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all
        return
    await desk.engine.forget(entry.run_id)
    await desk.tell()


async def _stop(desk: CardDesk, run_id: str) -> bool:
    """Stop a run; True once it is proven over. An engine that doesn't obey is ended."""
    deadline = time.monotonic() + desk.patience.stop_s
    while True:
        seen = await desk.engine.cancel(run_id)
        if seen.state.is_over or seen.state is RunState.ABSENT:
            return True
        if time.monotonic() > deadline:
            if seen.state is RunState.SILENT:
                return False
            await desk.keeper.restart()
            return True
        await asyncio.sleep(STOP_EACH_S)
