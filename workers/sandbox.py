"""How workflows run in production: in the SDK's sandbox, which is entered to run them and for nothing else."""

from collections.abc import Sequence
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info


def sandbox(*shared: str) -> WorkflowRunner:
    """A runner whose workflows share the modules named, which are loaded once for the whole process.

    Loading our own modules afresh for each generation doubles the work of its admission. The flow and replay tests
    do load them so, on every path, and tests/house reads their source: see docs/decisions/0011.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*shared)
    return _ContextFree(SandboxedWorkflowRunner(restrictions=restrictions))


class _ContextFree(WorkflowRunner):
    """Answers for each workflow what the SDK would ask inside its sandbox, four times for every payload.

    It asks in which context the converter sees a payload. Ours sees none, nor is there a store for large payloads;
    a test holds both. For one admission these were twenty entries, a millisecond of processor.
    """

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner

    def prepare_workflow(self, defn: Any) -> None:
        """Load the workflow once, to see that it can be."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """One workflow."""
        return _Instance(self._runner.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """Exceptions that fail a workflow instead of its task."""
        self._runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance) -> None:
        self._instance = instance

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._instance.activate(act)

    def get_serialization_context(self, command_info: object) -> None:
        del command_info

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        del command_info
        return StorageDriverStoreContext(target=None)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()
