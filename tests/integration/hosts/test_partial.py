"""A run that gives fewer files than asked for, or more: the host says which outputs its files are."""

import asyncio
import time

import pytest

from activities.card_desk import CardDesk
from activities.card_run import CardRun
from infra.engines.fake.engine import FakeEngine
from infra.engines.fake.script import Script
from infra.engines.port import Collection
from tests.integration.hosts.conftest import MakeDesk
from tests.support.eventually import eventually
from tests.support.internal_api import InternalApi, order
from workflows.contracts.failures import Code
from workflows.contracts.generation import RunOutcome
from workflows.contracts.states import RunVerdict


def try_of(desk: CardDesk) -> CardRun:
    return CardRun(desk, order(), scheduled_at=time.time())


async def run(desk: CardDesk) -> RunOutcome:
    async with asyncio.timeout(20):
        return await try_of(desk).course()


@pytest.mark.parametrize(
    ("script", "asked", "files", "indices"),
    [
        (Script.GOOD, 3, 3, ()),
        (Script.LACK_FIRST, 3, 2, (1, 2)),
        (Script.LACK_FIRST, 1, 0, ()),
        (Script.MIXED, 4, 3, (1, 2, 3)),
        (Script.BLACK_LAST, 2, 2, ()),
    ],
)
async def test_each_file_comes_with_the_place_of_its_output(
    make_desk: MakeDesk,
    api: InternalApi,
    script: Script,
    asked: int,
    files: int,
    indices: tuple[int, ...],
) -> None:
    api.asked = asked
    desk = make_desk(script)
    outcome = await run(desk)
    assert outcome.verdict is RunVerdict.FINISHED
    assert (len(outcome.files), outcome.indices, outcome.refused) == (files, indices, ())
    assert {blob.sha256 for blob in outcome.files} == set(api.stored)
    assert len(api.stored) == files, "no two outputs of a run are the same picture"
    assert await run(desk) == outcome, "the journal keeps the places"


async def test_what_nobody_asked_for_is_not_stored_and_is_told(make_desk: MakeDesk, api: InternalApi) -> None:
    api.asked = 2
    outcome = await run(make_desk(Script.SURPLUS))
    assert (len(outcome.files), outcome.indices, len(api.stored)) == (2, (), 2)
    assert "1 file(s) more than asked for" in outcome.evidence


async def test_a_try_that_only_found_the_run_names_the_places_too(make_desk: MakeDesk, api: InternalApi) -> None:
    api.asked = 3
    first = make_desk(Script.LACK_FIRST)
    begun = try_of(first)
    task = asyncio.create_task(begun.course())
    await eventually(lambda: begun.fraction > 0, what="progress")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(first.keeper, FakeEngine)
    outcome = await run(make_desk(engine=first.keeper))
    assert (len(outcome.files), outcome.indices) == (2, (1, 2))
    assert first.keeper.submitted == 1


async def test_files_that_are_not_what_the_engine_announced_are_refused_by_place(
    make_desk: MakeDesk, api: InternalApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.asked = 3
    desk = make_desk()
    collect = desk.engine.collect

    async def lies(*arguments: object) -> Collection:
        whole = await collect(*arguments)  # type: ignore[arg-type]  # passed on as it came
        return Collection(files=whole.files[:1] + whole.files[2:], unusable=(1,))

    monkeypatch.setattr(desk.keeper, "collect", lies)
    outcome = await run(desk)
    assert outcome.indices == (0, 2)
    assert [(one.index, one.code) for one in outcome.refused] == [(1, Code.UPSTREAM_FAILED)]
    assert "aren't what it announced" in outcome.evidence
