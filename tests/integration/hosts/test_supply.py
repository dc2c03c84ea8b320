"""What a run is supplied with on its way to the engine: its order beside the look, few bytes with the order."""

import asyncio
import base64
from pathlib import Path

import pytest

from activities import card_supply
from activities.card_desk import CardDesk
from infra.engines.port import Sighting
from infra.hosts.client import BytesWrong
from infra.hosts.journal import Entry, Step
from tests.integration.hosts.conftest import CARD, MakeDesk
from tests.integration.hosts.test_card_run import engine_of, run
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi
from workflows.contracts.hosts import Work
from workflows.contracts.states import RunVerdict

LEASE = Entry("gen_a", 1, CARD, "lease-1", "gen_a-1", Step.ASKED)


async def work_with(desk: CardDesk, inline: bytes) -> Work:
    """The order of a lease, with these bytes as its only input."""
    desk.owned.set()
    work = await card_supply.fetch_order(desk, LEASE)
    assert isinstance(work, Work)
    (item,) = work.inputs
    return work.model_copy(
        update={"inputs": (item.model_copy(update={"inline": base64.b64encode(inline).decode()}),)}
    )


async def test_the_order_of_a_new_run_is_fetched_while_the_engine_is_asked(
    make_desk: MakeDesk, api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk()
    look = engine_of(desk).attach

    async def slow(run_id: str) -> Sighting:
        await eventually(lambda: bool(api.orders), what="the order's request")
        return await look(run_id)

    monkeypatch.setattr(desk.keeper, "attach", slow)
    assert (await run(desk)).verdict is RunVerdict.FINISHED
    assert len(api.orders) == 1


async def test_bytes_that_came_with_the_order_are_not_fetched(
    make_desk: MakeDesk, api: InternalApi, tmp_path: Path
) -> None:
    desk = make_desk()
    work = await work_with(desk, api.picture)
    api.away = True
    (path,) = await card_supply.fetch_inputs(desk, work, tmp_path / "run")
    assert await asyncio.to_thread(path.read_bytes) == api.picture


async def test_wrong_bytes_with_the_order_are_refused(make_desk: MakeDesk, tmp_path: Path) -> None:
    desk = make_desk()
    work = await work_with(desk, b"another picture")
    with pytest.raises(BytesWrong):
        await card_supply.fetch_inputs(desk, work, tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
