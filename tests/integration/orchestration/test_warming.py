"""Cards are warmed up by canaries: where too few have a model loaded, on an idle one, until it tells so."""

from pathlib import Path

from infra import generations, leases
from infra.catalog import Catalog, catalog
from infra.db import Query
from infra.settings import Settings
from infra.storage.store import BlobStore
from tests.integration.orchestration.conftest import Platform
from tests.support.catalogs import GIANT, with_giant
from tests.support.eventually import eventually
from tests.support.generations import request
from workers.orchestration.canaries import Canaries
from workers.orchestration.warming import kept, look
from workflows.domain.placement.warmth import Arrivals

_WARM_UPS = Query(
    "warm_ups",
    "select request #>> '{model,placement,only_card}' as card from generation"
    " where starts_with(operation_id, 'warm:')",
)


def warm_catalog(folder: Path) -> Catalog:
    modes = {
        name: mode.model_dump(mode="json") | {"uses": ["weights"]}
        for name, mode in catalog.load().entries["image-upscale"].manifest.modes.items()
    }
    return with_giant(
        folder, vram_budget_mib=1024, warm_min=1, modes=modes, residents={"weights": {"mib": 512, "load_s": 9.0}}
    )


async def test_a_model_that_is_to_be_warm_is_loaded_by_a_canary_until_its_card_tells(
    platform: Platform, tmp_path: Path
) -> None:
    platform.card.go.set()
    models = warm_catalog(tmp_path)
    store = BlobStore.from_settings(Settings(home=tmp_path))

    async def turn() -> list[str]:
        await Canaries(platform.database, platform.client, store, models).turn()
        async with platform.database.read() as reader:
            return [row["card"] for row in await reader.all(_WARM_UPS)]

    async def ready() -> bool:
        async with platform.database.read() as reader:
            return GIANT in {row.model_id for row in await generations.readiness(reader)}

    async def idle() -> bool:
        async with platform.database.read() as reader:
            return all(card.busy_until is None for card in (await look(reader, models)).cards)

    await turn()
    await eventually(ready, what="its canary to pass")
    await eventually(idle, what="the card to be idle")
    assert await turn() == [platform.card.uuid]
    await eventually(idle, what="the warm-up to end")

    loaded = [{"name": "weights", "mib": 512, "load_s": 9.0}]
    await platform.ways.report(platform.card.uuid, residents=loaded)
    async with platform.database.read() as reader:
        assert kept(await look(reader, models)) == {"weights": 1}
    assert await turn() == [platform.card.uuid]


async def test_arrivals_are_counted_in_two_halves(platform: Platform) -> None:
    account = await platform.ways.account()
    admitted = [request(account) for _ in range(3)]
    for each in admitted:
        await platform.ways.admit(each)
    async with platform.database.transaction() as tx:
        await tx.run(Query("no_guard", "alter table transfer disable trigger transfer_only_grows"))
        for age, each in zip(("200 s", "400 s"), admitted, strict=False):
            await tx.run(
                Query(
                    "back",
                    "update transfer set created_at = created_at - %(age)s::interval where task_id = %(task)s",
                ),
                age=age,
                task=each.task_id,
            )
        assert await leases.arrivals(tx) == {admitted[0].model.model_id: Arrivals(earlier=1, recent=1)}
