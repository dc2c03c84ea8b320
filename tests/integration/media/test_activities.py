"""The media queue's activities on a real store and a real database."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from pydantic import SecretStr

from activities.media import MediaActivities
from infra.db import Database, Query
from infra.db.errors import OnlyGrows
from infra.generations import ArtifactContradiction
from infra.media.decoder import Decoder
from infra.settings import Settings
from infra.storage.store import BlobStore
from tests.support.generations import Ways, request
from tests.support.pictures import encoded, png
from workflows.contracts.failures import Code
from workflows.contracts.generation import Inspection, InspectOrder, KeepOrder
from workflows.contracts.media import Artifact, BlobRef, MediaContract, RefusedOutput

CONTRACT = MediaContract(role="image", mime="image/png", width=64, height=48, has_alpha=False, bytes_max=100_000)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore.from_settings(Settings(home=tmp_path, signing_secret=SecretStr("s"), api_port=1))


@pytest.fixture
def activities(database: Database, store: BlobStore, tmp_path: Path) -> Iterator[MediaActivities]:
    decoder = Decoder()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield MediaActivities(database=database, store=store, decoder=decoder, scratch=scratch)
    assert list(scratch.iterdir()) == [], "files that were judged are gone"
    decoder.close()


async def stored(store: BlobStore, tmp_path: Path, content: bytes, *, under: str | None = None) -> BlobRef:
    path = tmp_path / "content"
    path.write_bytes(content)
    sha256 = under or hashlib.sha256(content).hexdigest()
    await store.put_file(path, sha256)
    path.unlink()
    return BlobRef(sha256=sha256, size=len(content), mime="image/png")


async def judged(activities: MediaActivities, *files: BlobRef, contracts: int = 1) -> Inspection:
    order = InspectOrder(task_id="gen_x", files=files, contracts=(CONTRACT,) * contracts)
    return await activities.inspect(order)


async def test_a_good_file_becomes_an_artifact(
    activities: MediaActivities, store: BlobStore, tmp_path: Path
) -> None:
    blob = await stored(store, tmp_path, png())
    inspection = await judged(activities, blob)

    assert inspection.failure is None
    assert inspection.artifacts == (Artifact(index=0, role="image", blob=blob, width=64, height=48),)
    assert await judged(activities, blob) == inspection


async def test_what_is_missing_lied_about_or_wrong_is_a_failure_for_the_caller(
    activities: MediaActivities, store: BlobStore, tmp_path: Path
) -> None:
    good = await stored(store, tmp_path, png())
    other = await stored(store, tmp_path, png(seed=2), under="a" * 64)
    absent = BlobRef(sha256="b" * 64, size=10, mime="image/png")
    large = await stored(store, tmp_path, png() + b"\0" * 100_000)
    for blob in (absent, good.model_copy(update={"size": good.size + 1}), other, large):
        failure = (await judged(activities, blob)).failure
        assert failure is not None
        assert failure.code is Code.MEDIA_VALIDATION_FAILED
        assert str(tmp_path) not in failure.message
    assert (await judged(activities, good, contracts=2)).failure is not None


async def test_keeping_is_idempotent_and_never_overwrites(
    activities: MediaActivities, ways: Ways, store: BlobStore, tmp_path: Path
) -> None:
    asked = request(await ways.account())
    await ways.admit(asked)
    blob = await stored(store, tmp_path, png())
    artifact = Artifact(index=0, role="image", blob=blob, width=64, height=48)
    order = KeepOrder(task_id=asked.task_id, account_id=asked.account_id, artifacts=(artifact,))
    await activities.keep(order)
    await activities.keep(order)

    other = artifact.model_copy(update={"blob": blob.model_copy(update={"sha256": "c" * 64})})
    with pytest.raises(ArtifactContradiction):
        await activities.keep(order.model_copy(update={"artifacts": (other,)}))
    assert [kept.sha256 for kept in (await ways.record(asked)).artifacts] == [blob.sha256]


async def test_each_file_is_judged_by_itself(
    activities: MediaActivities, store: BlobStore, tmp_path: Path
) -> None:
    good = await stored(store, tmp_path, png())
    black = await stored(store, tmp_path, encoded(Image.new("RGB", (64, 48))))
    short = await stored(store, tmp_path, png(seed=2)[:-100])
    other = await stored(store, tmp_path, png(seed=3))
    inspection = await judged(activities, black, good, short, other, contracts=4)

    assert inspection.failure is None
    assert [(one.index, one.blob) for one in inspection.artifacts] == [(1, good), (3, other)]
    assert [(one.index, one.code) for one in inspection.refused] == [
        (0, Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE),
        (2, Code.MEDIA_VALIDATION_FAILED),
    ]
    assert await judged(activities, black, good, short, other, contracts=4) == inspection

    none = await judged(activities, black, short, contracts=2)
    assert (none.artifacts, len(none.refused)) == ((), 2)
    assert none.failure is not None
    assert none.failure.code is Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE


async def test_why_an_output_is_not_delivered_is_kept_beside_the_others_once(
    activities: MediaActivities, ways: Ways, store: BlobStore, tmp_path: Path
) -> None:
    asked = request(await ways.account())
    asked = asked.model_copy(update={"outputs": asked.outputs * 3})
    await ways.admit(asked)
    blob = await stored(store, tmp_path, png())
    refused = tuple(
        RefusedOutput(index=place, code=Code.MEDIA_VALIDATION_FAILED, message=f"No {place}.") for place in (0, 2)
    )
    order = KeepOrder(
        task_id=asked.task_id,
        account_id=asked.account_id,
        artifacts=(Artifact(index=0, role="image", blob=blob, width=64, height=48),),
        refused=refused,
    )
    await activities.keep(order)
    await activities.keep(order)
    assert (await ways.record(asked)).partial is None, "nothing is said before the end"
    await ways.settle(asked.task_id, 3)
    record = await ways.record(asked)
    assert record.refused == refused
    assert record.partial is not None
    assert (record.partial.asked, record.partial.delivered) == (3, 1)
    with pytest.raises(OnlyGrows):
        async with ways.database.transaction() as tx:
            await tx.run(Query("lie", "update refused_output set message = 'other'"))
    assert await ways.breaches() == []
