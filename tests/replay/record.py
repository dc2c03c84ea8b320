"""Records one history of each path: `python -m tests.replay.record [PATH…]`.

Existing histories are never rewritten: they stand for generations that began on that code. A new path
gets a new file; a path whose commands changed on purpose gets one more, as `<path>-2.json`.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from infra.temporal import generations
from tests.flows.server import make_current, start_server
from tests.flows.world import BLACK, Script, World, finished, gave, refusal, runs_at_once, runs_until_told, says
from tests.support.eventually import eventually
from workflows.contracts import generation as g
from workflows.contracts import names
from workflows.contracts.failures import Code, Failure
from workflows.contracts.states import Decision, RunVerdict

HISTORIES = Path(__file__).parent / "histories"
UNKNOWN = g.RunOutcome(verdict=RunVerdict.UNKNOWN, evidence="the engine is silent")
NEVER_RAN = g.RunOutcome(
    verdict=RunVerdict.FAILED,
    may_have_run=False,
    failure=Failure(code=Code.SERVICE_UNAVAILABLE, message="The journal can't be written."),
)
GONE = g.RunOutcome(verdict=RunVerdict.CANCELED, evidence="the engine never had the run")
BROKEN = Failure(code=Code.MEDIA_VALIDATION_FAILED, message="The picture is 64 x 63.")
FAILED = g.RunOutcome(
    verdict=RunVerdict.FAILED, failure=Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
)
ASK = g.CancelRequest(reason="changed my mind", actor="member-1")
RELEASE = g.Resolution(decision=Decision.RELEASE, reason="the vendor's log shows no job", actor="ana")


async def _dies(_script: Script, _order: g.RunOrder) -> g.RunOutcome:
    raise ApplicationError("the agent is gone", non_retryable=True)


async def delivered(world: World) -> Script:
    script = world.script()
    await world.admit_it(script)
    return script


async def refused(world: World) -> Script:
    script = world.script(refusal=refusal())
    await world.admit_it(script)
    return script


async def engine_failed(world: World) -> Script:
    script = world.script(run=says(FAILED))
    await world.admit_it(script)
    return script


async def delivered_in_part(world: World) -> Script:
    outcome = gave(0, 2)
    script = world.script(run=says(outcome), broken={outcome.files[1].sha256: BLACK})
    script.asks_for(1, 2, 3)
    await world.admit_it(script)
    return script


async def inspection_failed(world: World) -> Script:
    script = world.script(inspection=BROKEN)
    await world.admit_it(script)
    return script


async def expired(world: World) -> Script:
    script = world.script(at_once=False, waits=timedelta(seconds=1))
    await world.admit_it(script)
    return script


async def assigned_after_a_lapsed_offer(world: World) -> Script:
    script = world.script(at_once=False, accepts=False)
    await world.admit_it(script)
    offer = script.card.model_copy(update={"accepted": False})
    await generations.assign(world.client, script.request.task_id, offer)
    await eventually(lambda: script.count("accept"))
    script.accepts = True
    await generations.assign(world.client, script.request.task_id, offer)
    return script


async def canceled_while_waiting(world: World) -> Script:
    script = world.script(at_once=False)
    await world.admit_it(script)
    await generations.request_cancel(world.client, script.request.task_id, ASK)
    return script


async def canceled_during_the_hold(world: World) -> Script:
    script = world.script(at_once=False)
    script.hold_gate.clear()
    admission = asyncio.create_task(world.admit_it(script))
    await eventually(lambda: script.count("admit"))
    await world.handle(script).signal(names.CANCEL_SIGNAL)
    script.hold_gate.set()
    await admission
    return script


async def canceled_while_running(world: World) -> Script:
    script = world.script(run=runs_until_told)
    await world.admit_it(script)
    await eventually(lambda: script.orders)
    await generations.request_cancel(world.client, script.request.task_id, ASK)
    return script


async def canceled_by_temporal(world: World) -> Script:
    script = world.script(run=runs_until_told)
    await world.admit_it(script)
    await eventually(lambda: script.orders)
    await world.handle(script).cancel()
    return script


async def cancel_not_supported(world: World) -> Script:
    script = world.script(cancellable=False, run=runs_until_told)
    await world.admit_it(script)
    await eventually(lambda: script.orders)
    await generations.request_cancel(world.client, script.request.task_id, ASK)
    script.finish.set()
    return script


async def placed_again_on_proof(world: World) -> Script:
    script = world.script(run=says(NEVER_RAN))
    await world.admit_it(script)
    await eventually(lambda: script.count("requeue"))
    script.run = runs_at_once
    await generations.assign(world.client, script.request.task_id, script.card)
    return script


async def host_away_before_the_order(world: World) -> Script:
    script = world.script(fetched=False, run=_dies)
    await world.admit_it(script)
    await eventually(lambda: script.count("requeue"))
    script.run = runs_at_once
    await generations.assign(world.client, script.request.task_id, script.card)
    return script


async def unknown_then_found(world: World) -> Script:
    script = world.script(run=says(UNKNOWN, finished()))
    await world.admit_it(script)
    return script


async def unknown_then_resolved(world: World) -> Script:
    script = world.script(run=says(UNKNOWN))
    await world.admit_it(script)
    await eventually(lambda: script.unknowns)
    await generations.resolve(world.client, script.request.task_id, RELEASE)
    return script


async def unknown_then_settled(world: World) -> Script:
    script = world.script(run=says(UNKNOWN))
    await world.admit_it(script)
    await eventually(lambda: script.unknowns)
    settle = RELEASE.model_copy(update={"decision": Decision.SETTLE})
    await generations.resolve(world.client, script.request.task_id, settle)
    return script


async def unknown_then_raised(world: World) -> Script:
    script = world.script(run=says(UNKNOWN), resolve_by_s=1)
    await world.admit_it(script)
    await eventually(lambda: script.unknowns and script.unknowns[-1].raised)
    await generations.resolve(world.client, script.request.task_id, RELEASE)
    return script


async def unknown_then_released_by_manifest(world: World) -> Script:
    script = world.script(run=says(UNKNOWN), resolve_by_s=1, release_unknown=True)
    await world.admit_it(script)
    return script


async def silent_host_then_found(world: World) -> Script:
    async def dies(script: Script, order: g.RunOrder) -> g.RunOutcome:
        return finished() if order.attach_only else await _dies(script, order)

    script = world.script(run=dies)
    await world.admit_it(script)
    return script


async def taken_up_again(world: World) -> Script:
    script = world.script(run=says(finished()))
    script.card = script.card.model_copy(update={"accepted": False})
    await generations.resume(world.client, script.request)
    return script


async def unknown_then_found_in_the_store(world: World) -> Script:
    script = world.script(run=says(UNKNOWN), stored=finished().files)
    await world.admit_it(script)
    return script


async def unknown_then_resolved_by_signal(world: World) -> Script:
    script = world.script(run=says(UNKNOWN, GONE))
    await world.admit_it(script)
    await eventually(lambda: script.unknowns)
    handle = world.handle(script)
    await handle.signal(names.RESOLVE_SIGNAL, {"decision": "perhaps"})
    await handle.signal(names.RESOLVE_SIGNAL, {"decision": "release", "reason": "no job", "actor": "ana"})
    return script


async def unknown_then_settled_with_its_act(world: World) -> Script:
    return await unknown_then_settled(world)


async def released_then_found_late(world: World) -> Script:
    script = world.script(run=says(UNKNOWN, UNKNOWN, finished()), resolve_by_s=1, release_unknown=True)
    await world.admit_it(script)
    return script


async def released_then_not_found_in_time(world: World) -> Script:
    script = world.script(run=says(UNKNOWN), resolve_by_s=1, release_unknown=True, late_for=timedelta(seconds=2))
    await world.admit_it(script)
    return script


PATHS: tuple[Callable[[World], Awaitable[Script]], ...] = (
    delivered,
    refused,
    delivered_in_part,
    engine_failed,
    inspection_failed,
    expired,
    assigned_after_a_lapsed_offer,
    canceled_while_waiting,
    canceled_during_the_hold,
    canceled_while_running,
    canceled_by_temporal,
    cancel_not_supported,
    placed_again_on_proof,
    host_away_before_the_order,
    unknown_then_found,
    unknown_then_resolved,
    unknown_then_settled,
    unknown_then_raised,
    unknown_then_released_by_manifest,
    silent_host_then_found,
    taken_up_again,
    unknown_then_found_in_the_store,
    unknown_then_resolved_by_signal,
    unknown_then_settled_with_its_act,
    released_then_found_late,
    released_then_not_found_in_time,
)


async def record(wanted: set[str]) -> list[Path]:
    """Record the wanted paths that have no file yet, or all of those when none is named."""
    HISTORIES.mkdir(exist_ok=True)
    written = []
    async with contextlib.AsyncExitStack() as stack:
        environment = await stack.enter_async_context(await start_server())
        world = World(environment.client)
        for worker in world.workers():
            await stack.enter_async_context(worker)
        await make_current(environment.client)
        for path in PATHS:
            target = HISTORIES / f"{path.__name__}.json"
            if target.exists() or (wanted and path.__name__ not in wanted):
                continue
            script = await _walk(world, path)
            history = await world.handle(script).fetch_history()
            target.write_text(json.dumps(_nameless(history.to_json_dict()), indent=1) + "\n")
            written.append(target)
    return written


def _nameless(part: Any) -> Any:
    """The history without the process and the machine that recorded it; stack traces are full of its paths."""
    if isinstance(part, dict):
        return {key: _nameless(value) for key, value in part.items() if key != "stackTrace"}
    if isinstance(part, str):
        return part.replace(f"{os.getpid()}@{socket.gethostname()}", "recorder")
    return [_nameless(each) for each in part] if isinstance(part, list) else part


async def _walk(world: World, path: Callable[[World], Awaitable[Script]]) -> Script:
    """Go one path to its end, with a host for whichever card it uses."""
    async with world.hosting():
        script = await path(world)
        with contextlib.suppress(WorkflowFailureError):  # a refusal ends so
            await world.handle(script).result()
    return script


if __name__ == "__main__":
    for each in asyncio.run(record(set(sys.argv[1:]))):
        sys.stdout.write(f"{each}\n")
    sys.stdout.flush()
    os._exit(0)  # the SDK's threads may outlive its server, and abort an interpreter that is ending
