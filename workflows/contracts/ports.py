"""Activities as the workflow sees them: names and types, without bodies.

`activities/` implements each under the same name; `tests/house` compares the signatures.
"""

from temporalio import activity

from workflows.contracts import evidence as e
from workflows.contracts import generation as g
from workflows.contracts import sweep as w


@activity.defn(name="admit")
async def admit(request: g.GenerationRequest) -> g.Admission:
    """Hold the price and place at once where a card is idle. Local; one transaction; idempotent by operation."""
    raise NotImplementedError


@activity.defn(name="accept_lease")
async def accept_lease(order: g.AcceptLease) -> bool:
    """Accept an offer; False when it lapsed or was withdrawn. Local; compare-and-set."""
    raise NotImplementedError


@activity.defn(name="requeue")
async def requeue(order: g.Requeue) -> bool:
    """End a lease under which nothing ran, and wait again; False, and nothing changed, when it may have run.

    Local; one transaction; idempotent.
    """
    raise NotImplementedError


@activity.defn(name="advance")
async def advance(step: g.Advance) -> None:
    """Record a phase and its event. Local; ignored when the generation is already further."""
    raise NotImplementedError


@activity.defn(name="settle")
async def settle(order: g.Settle) -> g.Closing:
    """Post the hold and complete the generation. Local; one transaction; idempotent by task."""
    raise NotImplementedError


@activity.defn(name="release")
async def release(order: g.Release) -> g.Closing:
    """Void the hold and end the generation. Local; one transaction; idempotent by task."""
    raise NotImplementedError


@activity.defn(name="mark_unknown")
async def mark_unknown(order: g.MarkUnknown) -> None:
    """Show that the outcome isn't known. Local; idempotent."""
    raise NotImplementedError


@activity.defn(name="run_on_card")
async def run_on_card(order: g.RunOrder) -> g.RunOutcome:
    """Run on the card whose queue delivers this: attach, else submit; follow; upload. Beats; cancellable."""
    raise NotImplementedError


@activity.defn(name="inspect")
async def inspect(order: g.InspectOrder) -> g.Inspection:
    """Decode every file to its end and judge it against its contract. Media queue; pure in its result."""
    raise NotImplementedError


@activity.defn(name="keep")
async def keep(order: g.KeepOrder) -> None:
    """Record the artifacts for their owner. Media queue; idempotent by task and index."""
    raise NotImplementedError


@activity.defn(name="sweep_courses")
async def sweep_courses(order: w.SweepOrder) -> w.SweepPart:
    """Take up again what holds credits without an open workflow; show what contradicts itself. Sweep queue."""
    raise NotImplementedError


@activity.defn(name="sweep_workflows")
async def sweep_workflows(order: w.SweepOrder) -> w.SweepPart:
    """End open workflows of which the database knows nothing. Sweep queue."""
    raise NotImplementedError


@activity.defn(name="sweep_lots")
async def sweep_lots(order: w.SweepOrder) -> w.SweepPart:
    """Book credits past their date as lost. Sweep queue."""
    raise NotImplementedError


@activity.defn(name="sweep_store")
async def sweep_store(order: w.SweepOrder) -> w.SweepPart:
    """Let go of results and bytes without an owner. Sweep queue."""
    raise NotImplementedError


@activity.defn(name="record_look")
async def record_look(look: e.Look) -> None:
    """Record what was asked about a run, and the answer. Local; idempotent by `look_id`."""
    raise NotImplementedError


@activity.defn(name="look_in_journal")
async def look_in_journal(order: g.RunOrder) -> g.RunOutcome | None:
    """How the lease's run ended, as its host journaled it; None while it isn't over. Look queue; reads only."""
    raise NotImplementedError


@activity.defn(name="look_in_store")
async def look_in_store(question: e.StoreQuestion) -> e.StoreAnswer:
    """Whether all results granted under a lease are in the store, whole. Media queue; changes nothing."""
    raise NotImplementedError


@activity.defn(name="resolve")
async def resolve(order: e.Resolve) -> g.Closing:
    """Book an operator's decision with its reason. Local; one transaction; answers the end that stands."""
    raise NotImplementedError


@activity.defn(name="begin_late_look")
async def begin_late_look(step: e.LateStep) -> e.LateLook | None:
    """The search that a release without an outcome began; None where there is none. Local; changes nothing."""
    raise NotImplementedError


@activity.defn(name="plan_late_look")
async def plan_late_look(step: e.LateStep) -> None:
    """Show when the next look for a late result is. Local; idempotent."""
    raise NotImplementedError


@activity.defn(name="end_late_look")
async def end_late_look(step: e.LateStep) -> None:
    """End the search without a delivery. Local; idempotent."""
    raise NotImplementedError


@activity.defn(name="deliver_late")
async def deliver_late(step: e.LateStep) -> g.Closing:
    """Complete a released generation with what was kept, free of charge. Local; one transaction; idempotent."""
    raise NotImplementedError
