"""The strictest sandbox for workflow code: every module that decides is loaded inside it."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

STRICT = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules("workflows.contracts")
)
"""Contracts are types and constants, shared with the payload converter outside. Definitions and domain are loaded
afresh for each workflow, so that a clock, chance or file anywhere in them fails the test that goes there."""
