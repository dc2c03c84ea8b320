"""All parts of `holdfast bench overhead`, one after the other, against the running stack."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from infra.db import Database
from infra.settings import Settings
from infra.temporal.connection import connect
from workers.bench.admission import admission
from workers.bench.bare import Setting
from workers.bench.bare_calls import BareCalls, bare_workers
from workers.bench.first_step import first_step
from workers.bench.idle import idle
from workers.bench.native_engine import native_engine
from workers.bench.plan import Part, Plan
from workers.bench.visitor import visitor
from workers.cli.report import Figure

CREDITS = 1_000_000
"""More than any of the parts spends."""


async def overhead(settings: Settings, plan: Plan, tell: Callable[[str], None]) -> Sequence[Figure]:
    """Measure; `settings` name where the parts of the running stack are."""
    figures: list[Figure] = []
    database = Database.from_settings(settings, application="holdfast bench")
    await database.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        guest = await stack.enter_async_context(
            visitor(database, settings.public_url, credits=CREDITS, purpose="bench")
        )
        if plan.parts & {Part.ADMISSION, Part.START}:
            async with bare_workers(settings.temporal_address or ""):
                client = await connect(settings)
                bare = {setting: BareCalls(client, setting) for setting in Setting}
                if Part.ADMISSION in plan.parts:
                    tell("admission beside a bare update-with-start")
                    figures += await admission(guest, bare, samples=plan.samples)
                if Part.START in plan.parts:
                    tell("request to the engine's first step beside a bare workflow")
                    engines = settings.home / "engines"
                    figures += await first_step(guest, bare, engines=engines, samples=plan.samples)
        if Part.ENGINE in plan.parts:
            tell("the network inside the platform beside a bare loop")
            figures += await native_engine(
                guest,
                database,
                threads=settings.cpu_threads,
                pairs=plan.pairs,
                seconds=plan.seconds,
                tell=tell,
            )
        if Part.IDLE in plan.parts:
            tell(f"memory after {plan.idle_s:g} idle seconds")
            figures += await idle(guest, settings.home, idle_s=plan.idle_s)
    return figures
