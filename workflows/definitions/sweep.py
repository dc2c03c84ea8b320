"""The sweep as a workflow: its steps one after the other, each by itself."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, VersioningBehavior
from temporalio.exceptions import ActivityError

from workflows.contracts import names, ports, queues, timeouts
from workflows.contracts.sweep import FINDINGS_SHOWN_MAX, SweepOrder, SweepPart, SweepReport

STEPS = (ports.sweep_courses, ports.sweep_workflows, ports.sweep_lots, ports.sweep_store)
"""Money first."""
_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
"""What is away for longer is looked at by the next sweep."""


@workflow.defn(name=names.SWEEP_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class SweepWorkflow:
    """One sweep. A step that can't be done now keeps no other one from being done."""

    @workflow.run
    async def run(self, order: SweepOrder) -> SweepReport:
        """Sweep, and say what was found."""
        report = SweepReport(dry_run=order.dry_run, looked_at={})
        for step in STEPS:
            report = await _with(report, step, order)
            workflow.set_current_details(_details(report))
        return report


async def _with(
    report: SweepReport, step: Callable[[SweepOrder], Awaitable[SweepPart]], order: SweepOrder
) -> SweepReport:
    """The report with what this step found, or why it was put off."""
    name = step.__name__.removeprefix("sweep_")
    try:
        part = await workflow.execute_activity(
            step,
            order,
            task_queue=queues.SWEEP,
            start_to_close_timeout=timeouts.SWEEP_STEP,
            schedule_to_start_timeout=timeouts.SWEEP_STEP_SILENCE,
            heartbeat_timeout=timeouts.SWEEP_STEP_SILENCE,
            retry_policy=_RETRY,
            summary=("look at " if order.dry_run else "sweep ") + name,
        )
    except ActivityError as error:
        return report.model_copy(update={"put_off": report.put_off | {name: str(error.cause or error)[:200]}})
    room = FINDINGS_SHOWN_MAX - len(report.findings)
    return report.model_copy(
        update={
            "looked_at": report.looked_at | {name: part.looked_at},
            "findings": report.findings + part.findings[:room],
            "more": report.more + part.more + max(0, len(part.findings) - room),
        }
    )


def _details(report: SweepReport) -> str:
    """What Temporal's Web UI shows."""
    lines = ["**dry run: nothing is changed**" if report.dry_run else "", "looked at: "]
    lines[-1] += ", ".join(f"{count} {step}" for step, count in report.looked_at.items())
    lines += [f"- put off: {step}: {why}" for step, why in report.put_off.items()]
    lines += [
        f"- {finding.kind.value} {finding.subject}: {finding.detail}; {finding.remedy}"
        + (" (done)" if finding.repaired else "")
        for finding in report.findings[:50]
    ]
    return "\n".join(line for line in lines if line)
