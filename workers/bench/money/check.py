"""The long run of random steps, on a server of its own; `holdfast bench ledger --check`."""

import asyncio
import time
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import HypothesisException
from hypothesis.stateful import run_state_machine_as_test

from infra.db import DatabaseTrouble, migrate
from infra.local.scratch import scratch_server
from workers.bench.money.ground import Loop, prepare
from workers.bench.money.machine import Platform
from workers.bench.money.scratch import Scratch
from workers.cli.report import Figure, at_least, at_most

STEPS = 200
"""Of one life of a database: long enough for all to meet, short enough for the audit to stay quick."""
LIVES = 10
"""From one seed, so that the run ends soon after the steps that were asked for."""
TELL_EACH = 2_000


def check(operations: int, tell: Callable[[str], None]) -> Sequence[Figure]:
    """Take at least so many steps; after each, the whole audit and the model are compared."""
    if not __debug__:
        raise RuntimeError("the machine finds by asserting, and python -O leaves assertions out")
    began = time.monotonic()
    loop = Loop()
    found: Exception | None = None
    with scratch_server("fsync=off") as server:
        asyncio.run(migrate(server.conninfo()))
        loop.run(prepare(server.conninfo()))

        class Told(Platform):
            """The machine, with a word now and then."""

            told = 0

            def teardown(self) -> None:
                """Say how far it is."""
                super().teardown()
                if Told.operations // TELL_EACH > Told.told:
                    Told.told = Told.operations // TELL_EACH
                    tell(f"{Told.operations} of {operations} operations")

        Told.scratch = Scratch(
            loop, create=server.create_database, conninfo=server.conninfo, drop=server.drop_database
        )
        try:
            for number in range(operations):
                if Told.operations >= operations:
                    break
                _run(Told, number)
        except (AssertionError, DatabaseTrouble, HypothesisException) as error:
            found = error
        finally:
            loop.close()
    seconds = time.monotonic() - began
    raw = {"seconds": round(seconds, 1), "steps_of_a_life": STEPS, "happened": dict(Told.happened)}
    course = {"course": [str(found), *getattr(found, "__notes__", [])]} if found else {}
    return [
        at_least("operations_checked", Told.operations, operations, "count", raw),
        at_most("invariants_broken", 1 if found else 0, 0, "count", course),
    ]


def _run(machine: type[Platform], number: int) -> None:
    """Some lives from one seed. A finding is made as short as it can be, which takes more lives."""
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=LIVES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
