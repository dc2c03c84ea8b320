"""The activities as a generation calls them: where each runs, how long, and how often it is tried.

Money steps are local activities, tried again for ever: each is one idempotent transaction. They are
called from the generation's course only, which no cancel reaches; message handlers never call them.
"""

from collections.abc import Awaitable
from datetime import timedelta
from typing import TypedDict, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from workflows.contracts import ids, ports, queues, timeouts
from workflows.contracts.evidence import LateLook, LateStep, Look, Resolve, StoreAnswer, StoreQuestion
from workflows.contracts.generation import (
    AcceptLease,
    Admission,
    Advance,
    Closing,
    GenerationRequest,
    Inspection,
    InspectOrder,
    KeepOrder,
    MarkUnknown,
    Release,
    Requeue,
    RunOrder,
    RunOutcome,
    Settle,
)

T = TypeVar("T")


class _LocalOptions(TypedDict):
    start_to_close_timeout: timedelta
    retry_policy: RetryPolicy
    local_retry_threshold: timedelta


_MONEY = _LocalOptions(
    start_to_close_timeout=timeouts.MONEY_STEP,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(milliseconds=100), backoff_coefficient=2, maximum_interval=timedelta(seconds=10)
    ),
    # A longer pause between tries becomes a timer: without it a database that is away makes the worker
    # renew the workflow task every 1.6 s, three events each.
    local_retry_threshold=timedelta(seconds=1),
)
_RUN_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=5),
    maximum_attempts=5,  # a request that kills its host each time must end; silence after these is unknown
)
_LOOK_RETRY = RetryPolicy(maximum_attempts=1)  # the next look is the retry
_INSPECT_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1), maximum_attempts=20
)
"""About a quarter of an hour without a store; a file that kills its inspector each time must end."""
_KEEP_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))


class MoneyStepRefusedError(RuntimeError):
    """A money step answered with an error that no retry cures: a bug.

    Not a Temporal failure on purpose. It fails the workflow task, which is tried again until the
    code is mended, and never the workflow, whose hold would stay open.
    """


async def admit(request: GenerationRequest) -> Admission:
    """Hold the price, and get a card at once where one is idle."""
    return await _money(
        workflow.execute_local_activity(
            ports.admit,
            request,
            **_MONEY,
            summary=f"hold {request.price_credits} credits",
        )
    )


async def accept_lease(order: AcceptLease) -> bool:
    """Take the card that was offered, if it still is."""
    return await _money(
        workflow.execute_local_activity(
            ports.accept_lease,
            order,
            **_MONEY,
            summary=f"accept {order.lease.card_label}",
        )
    )


async def requeue(order: Requeue) -> bool:
    """Wait again; False when the run may have begun."""
    return await _money(
        workflow.execute_local_activity(
            ports.requeue,
            order,
            **_MONEY,
            summary=f"give {order.lease.card_label} back",
        )
    )


async def advance(step: Advance) -> None:
    """Record a phase that moves no money."""
    await _money(
        workflow.execute_local_activity(
            ports.advance,
            step,
            **_MONEY,
            summary=step.phase.value,
        )
    )


async def mark_unknown(order: MarkUnknown) -> None:
    """Show that nobody knows the outcome."""
    await _money(
        workflow.execute_local_activity(
            ports.mark_unknown,
            order,
            **_MONEY,
            summary="raise the unknown outcome" if order.raised else "show the unknown outcome",
        )
    )


async def settle(order: Settle) -> Closing:
    """Pay and end."""
    return await _money(
        workflow.execute_local_activity(
            ports.settle,
            order,
            **_MONEY,
            summary=f"settle {order.credits} credits",
        )
    )


async def release(order: Release) -> Closing:
    """Give back and end."""
    return await _money(
        workflow.execute_local_activity(
            ports.release,
            order,
            **_MONEY,
            summary=f"release: {order.failure.code.value}",
        )
    )


async def record_look(look: Look) -> None:
    """Record what was asked about a run, and the answer."""
    await _money(
        workflow.execute_local_activity(
            ports.record_look,
            look,
            **_MONEY,
            summary=f"{look.source.value} says {look.finding.value}",
        )
    )


async def look_in_journal(order: RunOrder, *, card_label: str) -> tuple[RunOutcome | None, bool]:
    """How the run ended as its host journaled it, if so; and whether the host is there at all."""
    try:
        outcome = await workflow.execute_activity(
            ports.look_in_journal,
            order,
            task_queue=ids.look_queue(order.card_uuid),
            schedule_to_start_timeout=timeouts.LOOK_PICKUP,
            start_to_close_timeout=timeouts.LOOK_ANSWER,
            retry_policy=_LOOK_RETRY,
            summary=f"look into the journal of {card_label}'s host, fence {order.fence}",
        )
    except ActivityError:
        return None, False
    return outcome, True


async def look_in_store(question: StoreQuestion) -> StoreAnswer | None:
    """Whether the store has all results of a run; None when nobody could say."""
    try:
        return await workflow.execute_activity(
            ports.look_in_store,
            question,
            task_queue=queues.MEDIA,
            schedule_to_start_timeout=timeouts.STORE_PICKUP,
            start_to_close_timeout=timeouts.STORE_LOOK,
            heartbeat_timeout=timeouts.HEARTBEAT,
            retry_policy=_LOOK_RETRY,
            summary=f"look for {question.outputs} result(s) in the store",
        )
    except ActivityError:
        return None


async def resolve(order: Resolve) -> Closing:
    """Book what an operator decided, and who decided it, why."""
    return await _money(
        workflow.execute_local_activity(
            ports.resolve,
            order,
            **_MONEY,
            summary=f"as decided by {order.actor}: "
            + ("release" if order.credits is None else f"settle {order.credits} credits"),
        )
    )


async def begin_late_look(step: LateStep) -> LateLook | None:
    """The search that the release began."""
    return await _money(
        workflow.execute_local_activity(ports.begin_late_look, step, **_MONEY, summary="is a late result sought?")
    )


async def plan_late_look(step: LateStep) -> None:
    """Show when the next look for a late result is."""
    await _money(
        workflow.execute_local_activity(ports.plan_late_look, step, **_MONEY, summary="plan the next look")
    )


async def end_late_look(step: LateStep) -> None:
    """End the search for a late result."""
    await _money(
        workflow.execute_local_activity(
            ports.end_late_look, step, **_MONEY, summary=f"end the search: {step.ending}"
        )
    )


async def deliver_late(step: LateStep) -> Closing:
    """Complete the generation free of charge."""
    return await _money(
        workflow.execute_local_activity(
            ports.deliver_late, step, **_MONEY, summary="deliver the late result free of charge"
        )
    )


def run_on_card(order: RunOrder, *, run_s_max: int, card_label: str) -> workflow.ActivityHandle[RunOutcome]:
    """Start the run, or a look for it, on the card's own queue."""
    return workflow.start_activity(
        ports.run_on_card,
        order,
        task_queue=ids.card_queue(order.card_uuid),
        schedule_to_start_timeout=timeouts.CARD_PICKUP,
        start_to_close_timeout=timedelta(seconds=run_s_max) + timeouts.RUN_ENDS_AFTER_DEADLINE,
        heartbeat_timeout=timeouts.HEARTBEAT,
        retry_policy=_LOOK_RETRY if order.attach_only else _RUN_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=("look for the run on " if order.attach_only else "run on ")
        + f"{card_label}, fence {order.fence}",
    )


async def inspect(order: InspectOrder) -> Inspection | None:
    """Judge the files; None when nobody could, after every try."""
    try:
        return await workflow.execute_activity(
            ports.inspect,
            order,
            task_queue=queues.MEDIA,
            start_to_close_timeout=timeouts.INSPECT * max(1, len(order.files)),
            heartbeat_timeout=timeouts.HEARTBEAT,
            retry_policy=_INSPECT_RETRY,
            summary=f"decode and judge {len(order.files)} file(s)",
        )
    except ActivityError:
        return None


async def keep(order: KeepOrder) -> None:
    """Record the artifacts for their owner."""
    await _money(
        workflow.execute_activity(
            ports.keep,
            order,
            task_queue=queues.MEDIA,
            start_to_close_timeout=timeouts.KEEP,
            heartbeat_timeout=timeouts.HEARTBEAT,
            retry_policy=_KEEP_RETRY,
            summary=f"keep {len(order.artifacts)} artifact(s)",
        )
    )


async def _money(step: Awaitable[T]) -> T:
    try:
        return await step
    except ActivityError as error:
        raise MoneyStepRefusedError(f"{error.activity_type}: {error.cause}") from error
