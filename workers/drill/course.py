"""A drill from its stack's first start to its removal."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from infra.db import Database
from workers.bench.pictures import picture
from workers.bench.visitor import visitor
from workers.cli.report import Figure
from workers.drill.cases import POINTS, Case
from workers.drill.kill import Ending, KillDrill
from workers.drill.stack import temporary_stack

SIDE = 640
"""Pixels of the input: its run takes some seconds, long enough to be hit in the middle."""
CREDITS = 1_000_000


@asynccontextmanager
async def prepared(tell: Callable[[str], None], *, keep: bool = False) -> AsyncIterator[KillDrill]:
    """A stack of its own with an account, and the undisturbed run done."""
    # The database is taken away on purpose; its pool would tell each time.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    async with temporary_stack(tell, keep=keep, points=POINTS) as settings:
        database = Database.from_settings(settings, application="drill")
        async with database, visitor(database, settings.public_url, credits=CREDITS, purpose="drill") as guest:
            drill = KillDrill(home=settings.home, database=database, visitor=guest, image=picture(SIDE, SIDE))
            tell(f"undisturbed: {await drill.baseline()}")
            yield drill


async def kill_all(cases: Sequence[Case], tell: Callable[[str], None], *, keep: bool = False) -> list[Figure]:
    """Run the cases one after the other; a figure for each, behind the count of those that ended right."""
    figures: list[Figure] = []
    async with prepared(tell, keep=keep) as drill:
        for number, case in enumerate(cases, 1):
            ending = await drill.run(case)
            figures.append(ending.figure())
            tell(f"{number}/{len(cases)} {_line(ending)}")
    right = sum(figure.ok for figure in figures)
    return [Figure("cases_ended_right", right, "count", f"= {len(cases)}", right == len(cases)), *figures]


def _line(ending: Ending) -> str:
    words = [ending.case, "ok" if ending.ok else "WRONG", f"in {ending.seconds:.1f} s", ending.status]
    return " ".join(word for word in (*words, ending.credit_status, ending.note, *ending.breaches) if word)
