"""The fields of every message, now and as they were recorded.

`contract_fields.json` grows only: `python -m tests.house.refresh` adds what is new and keeps what was there.
"""

import importlib
import json
import pkgutil
from pathlib import Path

from workflows import contracts
from workflows.contracts.message import Message

RECORD = Path(__file__).with_suffix(".json")

Fields = dict[str, bool]
"""Field name to whether it has to be given."""


def fields_of(message: type[Message]) -> Fields:
    """The fields of one message."""
    return {name: field.is_required() for name, field in message.model_fields.items()}


def messages() -> dict[str, type[Message]]:
    """Every message of the contracts, by its module and name."""
    for info in pkgutil.iter_modules(contracts.__path__):
        importlib.import_module(f"{contracts.__name__}.{info.name}")
    found: dict[str, type[Message]] = {}
    waiting = list(Message.__subclasses__())
    while waiting:
        message = waiting.pop()
        waiting += message.__subclasses__()
        if message.__module__.startswith(f"{contracts.__name__}."):
            found[f"{message.__module__.rpartition('.')[2]}.{message.__name__}"] = message
    return dict(sorted(found.items()))


def recorded() -> dict[str, Fields]:
    """What the record holds."""
    loaded: dict[str, Fields] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return loaded


def grown(record: dict[str, Fields], now: dict[str, Fields]) -> dict[str, Fields]:
    """The record with new messages and fields added; nothing that it holds is lost."""
    names = sorted({*record, *now})
    return {name: {**now.get(name, {}), **record.get(name, {})} for name in names}


def mistakes(record: dict[str, Fields], now: dict[str, Fields]) -> list[str]:
    """What would make a recorded history, or a worker one release behind, unreadable. Each says the cure."""
    found = []
    for message, before in record.items():
        fields = now.get(message)
        if fields is None:
            found.append(
                f"{message} is gone, but histories hold it. Put it back; if nothing sends it any more, say so in"
                " its docstring, and leave it for as long as histories are kept."
            )
            continue
        for field, required in before.items():
            if field not in fields:
                found.append(
                    f"{message}.{field} is gone or renamed. Histories hold it under that name: keep the field, add"
                    " the new one beside it with a default, and let readers take either."
                )
            elif fields[field] and not required:
                found.append(
                    f"{message}.{field} has to be given now. Messages without it exist: give it a default."
                )
    for message, fields in now.items():
        for field, required in fields.items():
            if field in record.get(message, {}):
                continue
            if required and message in record:
                found.append(
                    f"{message}.{field} is new and has no default. Messages without it exist: give it one."
                )
            else:
                found.append(
                    f"{message}.{field} isn't recorded. Run `python -m tests.house.refresh` and commit it."
                )
    return sorted(found)
