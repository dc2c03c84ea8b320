"""The registry lists every workflow and every activity, once.

Reason: an activity that no worker serves is scheduled and waits for ever, with credits held. One that two
queues serve runs where nobody looks for it.
"""

import importlib
import inspect
import pkgutil
from collections import Counter
from typing import Any

import activities
from tests.house.test_ports import defined_in, name_of
from workers.registry import REGISTRY, Registered, find
from workflows import definitions
from workflows.contracts import ports

_WORKFLOW = "__temporal_workflow_definition"
_ACTIVITY = "__temporal_activity_definition"


def _classes_with(package: Any, mark: str) -> list[str]:
    """Classes of a package that carry a mark themselves or on a method, as `module:class`."""
    found = []
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        for name, member in vars(module).items():
            if inspect.isclass(member) and member.__module__ == module.__name__:
                marked = mark in vars(member) or any(hasattr(value, mark) for value in vars(member).values())
                found += [f"{module.__name__}:{name}"] if marked else []
    return found


def unlisted(there: list[str], registry: dict[str, Registered], kind: str) -> list[str]:
    """What is in the code and not exactly once in the registry, or the other way round."""
    listed = Counter(name for registered in registry.values() for name in getattr(registered, kind))
    return [
        *(f"{name} is listed {listed[name]} times" for name in there if listed[name] != 1),
        *(f"{name} is listed and doesn't exist" for name in listed if name not in there),
    ]


def test_every_workflow_is_listed_once() -> None:
    assert unlisted(_classes_with(definitions, _WORKFLOW), REGISTRY, "workflows") == []


def test_every_class_of_activities_is_listed_once() -> None:
    assert unlisted(_classes_with(activities, _ACTIVITY), REGISTRY, "activities") == []


def test_a_worker_is_given_every_activity_once() -> None:
    served: Counter[str] = Counter()
    for registered in REGISTRY.values():
        for name in registered.activities:
            kind = find(name)
            # Collecting methods needs no state, so an object that was never initialised will do.
            given = kind.all(object.__new__(kind))
            served.update(name_of(method) for method in given)
    assert served == Counter(name_of(port) for port in defined_in([ports]))


def test_what_is_missing_double_or_gone_is_caught() -> None:
    registry = {"q": Registered(workflows=("m:A", "m:B")), "r": Registered(workflows=("m:B", "m:Gone"))}
    assert unlisted(["m:A", "m:B", "m:C"], registry, "workflows") == [
        "m:B is listed 2 times",
        "m:C is listed 0 times",
        "m:Gone is listed and doesn't exist",
    ]
