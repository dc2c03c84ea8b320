"""A card's desk with a real journal, a fake engine, and an internal endpoint that can be broken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from activities.card_desk import CardDesk, Patience
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.hosts.journal import Journal
from tests.support.internal_api import InternalApi
from tests.support.pictures import png

CARD = "cpu-test-0"
QUICK = Patience(silent_s=1.0, stall_s=1.0, stop_s=0.5, api_s=1.0, transfer_s=1.0, look_s=0.1)


@pytest.fixture
def api() -> InternalApi:
    return InternalApi(png(40, 32))


MakeDesk = Callable[..., CardDesk]


@pytest.fixture
async def make_desk(tmp_path: Path, api: InternalApi) -> AsyncIterator[MakeDesk]:
    """Desks over one journal file, each an agent of its own; the engine is kept while the test runs."""
    journals: list[Journal] = []
    keeping: list[asyncio.Task[None]] = []

    def make(*scripts: Script, engine: FakeEngine | None = None) -> CardDesk:
        journal = Journal(tmp_path / "journal.db")
        journals.append(journal)
        if engine is None:
            engine = FakeEngine(scripts or (Script.GOOD,))
            keeping.append(asyncio.create_task(engine.keep()))
        owned = asyncio.Event()
        owned.set()
        return CardDesk(
            card_uuid=CARD,
            boot_id=f"boot-{len(journals)}",
            keeper=engine,
            journal=journal,
            client=api.client(),
            folder=tmp_path / "runs",
            owned=owned,
            tell=_nothing,
            patience=QUICK,
        )

    yield make
    for task in keeping:
        task.cancel()
    await asyncio.gather(*keeping, return_exceptions=True)
    for journal in journals:
        journal.close()


async def _nothing() -> None:
    """No reporter."""
