"""The orchestrator's loops: one leader, messages that reach nobody, models that have to prove themselves."""

import asyncio
from datetime import timedelta
from pathlib import Path

from PIL import Image

from infra import canaries, generations, leases, ledger, outbox
from infra.catalog import catalog
from infra.db import Database, Query
from infra.settings import Settings
from infra.storage.store import BlobStore
from tests.integration.orchestration.conftest import Platform
from tests.support.eventually import eventually
from tests.support.generations import Ways, report, request
from workers.orchestration.canaries import DOUBT_MAX, Canaries
from workers.orchestration.placer import Placer
from workers.runtime import Stop
from workflows.contracts.states import Status

NEXT_ATTEMPT = Query("next_attempt", "select attempt from operation where account_id = 'house'")


async def test_only_one_placer_leads_and_another_takes_over(database: Database, ways: Ways) -> None:
    turns: list[str] = []

    class Counting(Placer):
        def __init__(self, name: str) -> None:
            super().__init__(database)
            self._name = name

        async def turn(self) -> None:
            turns.append(self._name)

    stops = {name: Stop() for name in ("a", "b")}
    first = asyncio.create_task(Counting("a").run(stops["a"]))
    await eventually(lambda: turns, what="the first to lead")
    second = asyncio.create_task(Counting("b").run(stops["b"]))
    await eventually(lambda: turns.count("a") >= 3, what="some more turns")
    assert set(turns) == {"a"}
    stops["a"].ask()
    await first
    await eventually(lambda: "b" in turns, what="the second to take over")
    stops["b"].ask()
    await second


async def test_a_message_for_a_generation_that_is_over_counts_as_delivered(platform: Platform) -> None:
    """Its workflow doesn't exist here; the offer lapses by itself and the row must not stay."""
    account = await platform.ways.account()
    held = request(account)
    async with platform.database.transaction() as tx:
        await leases.record_report(tx, report("cpu-b-0", capabilities=("other",)))
    await platform.ways.admit(request(account))  # takes the card
    await platform.ways.admit(held)
    async with platform.database.transaction() as tx:
        await leases.record_report(tx, report("cpu-b-0"))  # now it fits, and is offered

    async def nothing_open() -> bool:
        async with platform.database.transaction() as tx:
            return not [row for row in await outbox.take(tx, 10) if row.topic is outbox.Topic.ASSIGNED]

    async def offered() -> bool:
        async with platform.database.read() as reader:
            _, waiting = await leases.snapshot(reader)
            return not waiting

    await eventually(offered, what="the offer")
    await eventually(nothing_open, what="the message to be done with")


async def test_a_model_proves_itself_once_for_each_agent(platform: Platform, tmp_path: Path) -> None:
    platform.card.go.set()
    settings = Settings(home=tmp_path)
    models = catalog.load()
    proving = Canaries(platform.database, platform.client, BlobStore.from_settings(settings), models)
    await proving.turn()

    async def ready() -> bool:
        async with platform.database.read() as reader:
            return bool(await generations.readiness(reader))

    await eventually(ready, what="the model to be ready")
    ran = len(platform.card.ran)
    await proving.turn()
    assert len(platform.card.ran) == ran
    async with platform.database.transaction() as tx:
        await leases.record_report(tx, report(platform.card.uuid, boot_id="boot-2"))
    entry = models.entries["image-upscale"]
    candidate = canaries.Candidate(
        model_id="image-upscale",
        digest=entry.digest,
        capability="image_upscale",
        engine="native",
        needed_mib=4096,
        cards=1,
    )
    too_large = candidate.model_copy(update={"model_id": "giant", "needed_mib": 4097})
    too_many = candidate.model_copy(update={"model_id": "gang", "cards": 2})
    async with platform.database.read() as reader:
        (missing,) = await canaries.unproven(reader, [candidate, too_large, too_many])
    assert (missing.model_id, missing.boot_id, missing.ended, missing.open) == (
        "image-upscale",
        "boot-2",
        0,
        False,
    )
    assert await platform.audit() == []


async def test_a_canary_that_is_refused_is_not_tried_each_second(platform: Platform, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    proving = Canaries(platform.database, platform.client, BlobStore.from_settings(settings), catalog.load())
    async with platform.database.transaction() as tx:
        await ledger.freeze(tx, account_id=ledger.HOUSE, frozen=True, reason="test", actor="operator:test")
    for _ in range(5):
        await proving.turn()

    async def attempts() -> int:
        async with platform.database.read() as reader:
            return int(await reader.value(NEXT_ATTEMPT))

    assert await attempts() == 2, "one was refused, and the next is put off"


async def test_a_canary_in_doubt_ends_by_itself(platform: Platform, tmp_path: Path) -> None:
    """Held open for an operator, it would keep its model from its card for a day."""
    settings = Settings(home=tmp_path)
    proving = Canaries(platform.database, platform.client, BlobStore.from_settings(settings), catalog.load())
    await proving.turn()
    async with platform.database.read() as reader:
        (canary,) = await generations.open_generations(reader, older_than=timedelta(0), limit=9)
    assert canary.request.model.release_unknown
    assert canary.request.model.resolve_by_s == DOUBT_MAX.total_seconds()
    platform.card.go.set()
    assert (await platform.result(canary.request.task_id)).status is Status.COMPLETED


def test_the_canarys_picture_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "canary.png"
    path.write_bytes(canaries.picture(32))
    with Image.open(path) as picture:
        picture.load()
        assert (picture.size, picture.mode) == ((32, 32), "RGB")
        assert len(picture.getcolors(2000) or ()) > 500
    assert canaries.picture(32) == canaries.picture(32)
