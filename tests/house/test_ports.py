"""Each activity port is implemented under its name with its signature, and nothing else is an activity.

Reason: a workflow schedules a port by name. A body that was renamed, or that takes another message, is not
missed by any import: the activity task simply fails, in production, for as long as it is retried.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

from temporalio import activity

import activities
from workflows.contracts import ports

_DEFINITION = "__temporal_activity_definition"

Signature = tuple[tuple[tuple[str, Any], ...], Any]
"""Parameters as (name, type), and what is returned."""


def defined_in(namespaces: Iterable[Any]) -> list[Callable[..., Any]]:
    """Every activity among the members of modules, and of the classes in them."""
    found: dict[int, Callable[..., Any]] = {}
    for namespace in namespaces:
        for member in vars(namespace).values():
            if inspect.isclass(member):
                inner = [value for value in vars(member).values() if hasattr(value, _DEFINITION)]
                found |= {id(value): value for value in inner}
            elif hasattr(member, _DEFINITION):
                found[id(member)] = member
    return list(found.values())


def name_of(function: Callable[..., Any]) -> str:
    """The name by which Temporal knows an activity."""
    name = getattr(function, _DEFINITION).name
    assert isinstance(name, str)
    return name


def signature_of(function: Callable[..., Any]) -> Signature:
    """What it takes, `self` apart, and what it gives."""
    hints = get_type_hints(function)
    given = tuple((name, hints.get(name)) for name in inspect.signature(function).parameters if name != "self")
    return given, hints.get("return")


def differences(declared: list[Callable[..., Any]], implemented: list[Callable[..., Any]]) -> list[str]:
    """How bodies differ from ports; empty when they agree."""
    wanted = {name_of(port): signature_of(port) for port in declared}
    names = [name_of(body) for body in implemented]
    found = [f"{name} has no body in activities/" for name in wanted if name not in names]
    found += [f"{name} has {names.count(name)} bodies" for name in set(names) if names.count(name) > 1]
    for body in implemented:
        name = name_of(body)
        if name not in wanted:
            found.append(f"{name} has no port in contracts/ports.py")
        elif signature_of(body) != wanted[name]:
            found.append(f"{name} is {signature_of(body)}, its port is {wanted[name]}")
    return sorted(found)


def _bodies() -> list[Callable[..., Any]]:
    names = [info.name for info in pkgutil.walk_packages(activities.__path__, "activities.")]
    return defined_in(importlib.import_module(name) for name in names)


def test_every_port_has_its_body_and_every_body_its_port() -> None:
    assert differences(defined_in([ports]), _bodies()) == []


def test_each_kind_of_difference_is_caught() -> None:
    @activity.defn(name="weigh")
    async def weigh(stone: int) -> int:
        return stone

    @activity.defn(name="weigh")
    async def other(stone: str) -> int:
        return len(stone)

    class Scales:
        @activity.defn(name="weigh")
        async def weigh(self, stone: int) -> int:
            return stone

    assert differences([weigh], [Scales.weigh]) == []
    assert differences([weigh], []) == ["weigh has no body in activities/"]
    assert differences([], [weigh]) == ["weigh has no port in contracts/ports.py"]
    assert "weigh has 2 bodies" in differences([weigh], [weigh, Scales.weigh])
    (difference,) = differences([weigh], [other])
    assert "its port is" in difference
