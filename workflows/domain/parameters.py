"""A model's parameters: from what a caller wrote to canonical values, or a refusal that names field and limit."""

import math
import re
from collections.abc import Mapping

from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Parameter
from workflows.domain.manifest import ParameterSpec

STRING_CHARS_MAX = 4_000
"""Bound of a string parameter; a request travels through workflow histories, whose limit is 2 MiB."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def resolve_parameters(
    specs: Mapping[str, ParameterSpec], given: Mapping[str, Parameter]
) -> dict[str, Parameter] | Failure:
    """Checked values with the manifest's defaults filled in, in the manifest's order.

    Args:
        specs: What the model takes.
        given: What the caller sent, as text from a form or typed from JSON.

    Returns:
        The values, or the first refusal; a parameter that the model doesn't take is never dropped silently.
    """
    for name in given:
        if name not in specs:
            taken = ", ".join(sorted(specs)) or "none"
            return _refusal(name, f"`{name}` is not a parameter of this model; it takes: {taken}.")
    resolved: dict[str, Parameter] = {}
    for name, spec in specs.items():
        if name not in given:
            if spec.required:
                return _refusal(name, f"`{name}` is required{_choices(spec)}.")
            if spec.default is not None:
                resolved[name] = spec.default
            continue
        value = parse_parameter(spec, given[name])
        if value is None:
            return _refusal(name, f"`{name}` must be of type {spec.type}{_choices(spec)}.")
        problem = _outside(name, spec, value)
        if problem is not None:
            return problem
        resolved[name] = value
    return resolved


def canonical_parameter(spec: ParameterSpec | None, raw: Parameter) -> str:
    """One spelling for each value, so that `"2"`, `"02"` and `2` are the same body."""
    value = raw if spec is None else parse_parameter(spec, raw)
    if value is None:
        value = raw
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_parameter(spec: ParameterSpec, raw: Parameter) -> Parameter | None:
    """The typed value, or None when `raw` isn't of the type."""
    text = _text(raw)
    match spec.type:
        case "integer":
            return int(text) if _INTEGER.fullmatch(text) else None
        case "number":
            return _number(text)
        case "boolean":
            return _BOOLEANS.get(text.lower())
        case "string":
            return text


def _text(raw: Parameter) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return raw.strip() if isinstance(raw, str) else str(raw)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _outside(name: str, spec: ParameterSpec, value: Parameter) -> Failure | None:
    if spec.choices is not None and value not in spec.choices:
        return _refusal(name, f"`{name}` must be{_choices(spec)[len(':') :]}, not {str(value)[:40]}.")
    if isinstance(value, str):
        if len(value) > STRING_CHARS_MAX:
            return _refusal(name, f"`{name}` has {len(value)} characters; the limit is {STRING_CHARS_MAX}.")
        return None
    if spec.minimum is not None and value < spec.minimum:
        return _refusal(name, f"`{name}` is {value}; the least is {spec.minimum:g}.")
    if spec.maximum is not None and value > spec.maximum:
        return _refusal(name, f"`{name}` is {value}; the most is {spec.maximum:g}.")
    return None


def _choices(spec: ParameterSpec) -> str:
    return "" if spec.choices is None else ": one of " + ", ".join(str(choice) for choice in spec.choices)


def _refusal(name: str, message: str) -> Failure:
    return Failure(code=Code.INVALID_REQUEST, message=message, param=name)
