"""The host's client: what it tries again, what it doesn't, and what it never lets through."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.hosts.client import ApiAway, ApiRefused, BytesWrong, HostClient
from infra.orders import OrderKeys
from tests.support.internal_api import SIGNER, InternalApi
from tests.support.pictures import png
from workflows.contracts.hosts import HostReport, OrderRequest, SignedAddress, StaleLease, UploadRequest, Work
from workflows.contracts.media import BlobRef

ASK = OrderRequest(task_id="gen_a", lease_id="l", card_uuid="c", fence=1, boot_id="b")


@pytest.fixture
def api() -> InternalApi:
    return InternalApi(png(40, 32))


def blob_of(data: bytes) -> BlobRef:
    """The reference of these bytes."""
    return BlobRef(sha256=hashlib.sha256(data).hexdigest(), size=len(data), mime="image/png")


def source(blob: BlobRef, method: str = "GET") -> SignedAddress:
    """Where it lies."""
    url = f"/internal/v1/blobs/{blob.sha256}"
    return SignedAddress(url=url, method=method, expires_at=datetime.now(UTC))


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return [path.name for path in folder.iterdir()]


async def test_an_order_is_tried_again_until_the_api_is_back(api: InternalApi) -> None:
    api.fail_next = 3
    work = await api.client().order(ASK, within_s=10)
    assert isinstance(work, Work)
    assert len(api.orders) == 1


async def test_a_stale_lease_is_an_answer_and_no_error(api: InternalApi) -> None:
    api.stale = "a newer lease exists"
    assert await api.client().order(ASK, within_s=1) == StaleLease(reason="a newer lease exists")
    request = UploadRequest(task_id="gen_a", lease_id="l", fence=1, file=blob_of(b"x"))
    assert isinstance(await api.client().grant_upload(request, within_s=1), StaleLease)


async def test_an_api_that_stays_away_is_given_up_on_in_time(api: InternalApi) -> None:
    api.away = True
    with pytest.raises(ApiAway):
        await api.client().order(ASK, within_s=0.5)
    with pytest.raises(ApiAway):
        await api.client().report(HostReport(host="h", cards=()))


async def test_a_wrong_token_isnt_tried_again(api: InternalApi) -> None:
    keys = OrderKeys((SIGNER.public_key,))
    client = HostClient("http://api", "wrong", keys=keys, transport=api.client()._client._transport)
    with pytest.raises(ApiRefused):
        await client.order(ASK, within_s=10)
    assert api.orders == []


async def test_a_download_is_whole_and_verified(api: InternalApi, tmp_path: Path) -> None:
    blob = blob_of(api.picture)
    api.fail_next = 1
    await api.client().download(source(blob), blob, tmp_path / "in", within_s=5)
    assert (tmp_path / "in").read_bytes() == api.picture


@pytest.mark.parametrize("served", [b"x" * 10, b"y" * 100_000])
async def test_other_bytes_than_named_are_never_stored(api: InternalApi, tmp_path: Path, served: bytes) -> None:
    blob = blob_of(b"z" * 10)
    api.serve = served
    with pytest.raises(BytesWrong):
        await api.client().download(source(blob), blob, tmp_path / "in", within_s=5)
    assert names(tmp_path) == []


async def test_a_short_download_is_tried_again_and_then_given_up(api: InternalApi, tmp_path: Path) -> None:
    blob = blob_of(api.picture)
    api.serve = api.picture[:-5]
    with pytest.raises(ApiAway):
        await api.client().download(source(blob), blob, tmp_path / "in", within_s=0.5)
    assert names(tmp_path) == []


async def test_an_upload_arrives_and_a_wrong_one_is_refused(api: InternalApi, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"result" * 100_000)
    blob = blob_of(path.read_bytes())
    api.fail_next = 1
    await api.client().upload(source(blob, "PUT"), blob, path, within_s=5)
    assert api.stored[blob.sha256] == path.read_bytes()
    other = blob.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(ApiRefused):
        await api.client().upload(source(other, "PUT"), other, path, within_s=5)
