"""The only list of what runs where agrees with the ports and with the queues that the workflow uses."""

import inspect

from temporalio import activity

from workers import registry
from workflows.contracts import ports, queues
from workflows.contracts.names import GENERATION_WORKFLOW, SWEEP_WORKFLOW

LOCAL = {
    "admit", "accept_lease", "requeue", "advance", "settle", "release", "mark_unknown", "record_look", "resolve",
    "begin_late_look", "plan_late_look", "end_late_look", "deliver_late",
}  # fmt: skip


def activity_names(owner: object) -> set[str]:
    found = set()
    for _, member in inspect.getmembers(owner, callable):
        definition = activity._Definition.from_callable(member)
        if definition is not None and definition.name is not None:
            found.add(definition.name)
    return found


def registered(queue: str) -> set[str]:
    names: set[str] = set()
    for name in registry.REGISTRY[queue].activities:
        names |= activity_names(registry.find(name))
    return names


def test_every_port_is_served_on_exactly_one_queue() -> None:
    served = [name for queue in registry.REGISTRY for name in registered(queue)]
    assert sorted(served) == sorted(activity_names(ports))


def test_money_steps_are_the_orchestrators() -> None:
    assert registered(queues.ORCHESTRATOR) == LOCAL
    assert registered(queues.MEDIA) == {"inspect", "keep", "look_in_store"}
    assert registered(queues.SWEEP) == {"sweep_courses", "sweep_workflows", "sweep_lots", "sweep_store"}
    assert registered(registry.CARD) == {"run_on_card"}


def test_the_workflows_are_registered_under_their_names() -> None:
    found = {
        registry.find(name).__temporal_workflow_definition.name
        for name in registry.REGISTRY[queues.ORCHESTRATOR].workflows
    }
    assert found == {GENERATION_WORKFLOW, SWEEP_WORKFLOW}
