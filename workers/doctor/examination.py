"""The whole examination."""

import json

from pydantic import ValidationError

from infra.local.stack import StackNotStartedError, with_stack
from infra.settings import Settings
from infra.temporal.configuration import read_configuration
from workers.doctor import machine, parts
from workers.doctor.check import Check, right, wrong
from workers.supervisor import control


async def examine(settings: Settings) -> list[Check]:
    """Machine, configuration, then the parts; those that can't be up are not asked one by one."""
    found = [*machine.examine(settings), configuration(settings)]
    if not all(check.ok for check in found if check.name == "temporal.yaml keys"):
        return found
    try:
        full = with_stack(settings)
    except StackNotStartedError:
        full = settings
    except json.JSONDecodeError as error:
        return [*found, wrong("stack", f"secrets.json is damaged: {error}", "Restore a backup: holdfast restore")]
    running = control.current(settings)
    elsewhere = settings.database_url is not None and settings.temporal_address is not None
    if running is not None or not elsewhere:
        found.append(parts.stack(running))
    if running is None and not elsewhere:
        return found
    return [*found, *await parts.examine(full)]


def configuration(settings: Settings) -> Check:
    """temporal.yaml can be read, and every key in it is known."""
    name = "temporal.yaml keys"
    try:
        read_configuration(settings)
    except ValidationError as error:
        first = error.errors()[0]
        return wrong(
            name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", f"Correct {settings.temporal_file}"
        )
    except (OSError, TypeError, ValueError) as error:
        return wrong(name, str(error), "Correct it, or set HOLDFAST_TEMPORAL_FILE")
    return right(name, str(settings.temporal_file))
