"""What hosts reach: reports, orders, uploads, blobs by signed address."""

import base64
import dataclasses
import hashlib
from pathlib import Path

import pytest

from api.internal import hosts
from infra import leases
from infra.orders import OrderRefused, owner_of
from tests.contract.world import BOOT, CARD, HOST_TOKEN, ORDER_KEYS, User, World
from tests.support.pictures import png
from workflows.contracts import generation as g
from workflows.contracts.failures import Failure
from workflows.contracts.hosts import CardReport, HostReport, OrderRequest, UploadGrant, UploadRequest, Work
from workflows.contracts.media import BlobRef
from workflows.contracts.message import Message
from workflows.domain.placement.fleet import Given
from workflows.domain.plan import ImageFacts

TOKEN = {"Authorization": f"Bearer {HOST_TOKEN}"}
RESULT = png(128, 96, seed=8)
BLOB = BlobRef(sha256=hashlib.sha256(RESULT).hexdigest(), size=len(RESULT), mime="image/png")


async def placed(world: World, user: User) -> OrderRequest:
    """A generation on the card, with its lease accepted."""
    await world.uncordon()
    answer = await world.create(user, "op-1", png(seed=3))
    assert answer.status_code == 202
    lease = world.workflows.answers[-1].lease
    assert lease is not None
    return OrderRequest(
        task_id=answer.json()["id"], lease_id=lease.lease_id, card_uuid=CARD, fence=lease.fence, boot_id=BOOT
    )


async def test_only_hosts_are_answered(world: World, user: User) -> None:
    for headers in ({}, user.headers(), {"Authorization": "Bearer wrong"}):
        for path in ("report", "orders", "uploads"):
            answer = await world.client.post(f"/internal/v1/{path}", headers=headers, json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


async def test_a_report_makes_a_card_known(world: World) -> None:
    card = CardReport(
        card_uuid="gpu-7",
        label="gpu-7",
        gpu_model="H200",
        vram_total_mib=1,
        vram_free_mib=1,
        engines=(),
        capabilities=(),
        boot_id="b",
    )
    report = HostReport(host="other", cards=(card,))
    answer = await world.client.post("/internal/v1/report", headers=TOKEN, json=report.model_dump(mode="json"))

    assert (answer.status_code, answer.json()) == (200, {"refused": []})
    async with world.database.read() as reader:
        cards, _ = await leases.snapshot(reader)
    assert "gpu-7" in {row.card.uuid for row in cards}


async def test_a_message_that_does_not_fit_is_refused_by_field(world: World) -> None:
    answer = await world.client.post("/internal/v1/orders", headers=TOKEN, json={"task_id": 3})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "task_id")


async def test_an_order_is_fetched_run_and_delivered(world: World, user: User) -> None:
    order = await placed(world, user)
    answer = await world.client.post("/internal/v1/orders", headers=TOKEN, json=order.model_dump(mode="json"))
    assert answer.status_code == 200, answer.text
    work = Work.model_validate(answer.json())
    assert (work.parameters, work.fence, work.run_s_max) == ({"scale": 2}, order.fence, 900)
    assert "account" not in answer.text
    assert base64.b64decode(work.inputs[0].inline or "") == png(seed=3)

    fetched = await world.client.get(_path(world, work.inputs[0].source.url))
    assert fetched.content == png(seed=3)
    assert fetched.headers["content-type"] == "image/png"

    upload = UploadRequest(task_id=order.task_id, lease_id=order.lease_id, fence=order.fence, file=BLOB)
    granted = await world.client.post("/internal/v1/uploads", headers=TOKEN, json=upload.model_dump(mode="json"))
    target = _path(world, granted.json()["target"]["url"])
    wrong = await world.client.put(target, content=RESULT[:-1] + b"x")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_request")
    longer = await world.client.put(target, content=RESULT + b"x")
    assert longer.status_code == 400
    assert BLOB.sha256 not in await world.stored()
    assert (await world.client.put(target, content=RESULT)).status_code == 201
    assert BLOB.sha256 in await world.stored()
    assert world.spooled() == []

    again = await world.client.post("/internal/v1/uploads", headers=TOKEN, json=upload.model_dump(mode="json"))
    assert again.json()["target"] is None, "bytes that are there need not be sent again"


async def test_what_a_host_gets_is_signed_for_just_its_question(world: World, user: User) -> None:
    order = (await placed(world, user)).model_copy(update={"nonce": "n-1"})
    look = order.model_copy(update={"nonce": "n-2", "attach_only": True})
    upload = UploadRequest(
        task_id=order.task_id,
        lease_id=order.lease_id,
        fence=order.fence,
        file=BLOB,
        card_uuid=CARD,
        nonce="n-3",
    )
    for request in (order, look):
        work = Work.model_validate(await _answer(world, "orders", request))
        ORDER_KEYS.check_work(work, request)
        assert work.warrant is not None
        assert work.warrant.owner == owner_of(user.account_id, order.task_id)
    found = Work.model_validate(await _answer(world, "orders", look))
    with pytest.raises(OrderRefused):
        ORDER_KEYS.check_work(found, order)
    ORDER_KEYS.check_grant(UploadGrant.model_validate(await _answer(world, "uploads", upload)), upload)
    elsewhere = upload.model_copy(update={"card_uuid": "another card"})
    answer = await world.client.post("/internal/v1/uploads", headers=TOKEN, json=elsewhere.model_dump(mode="json"))
    assert answer.status_code == 409


async def test_without_a_key_hosts_are_told_nothing(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await placed(world, user)
    unsigned = dataclasses.replace(world.parts, orders=None)
    monkeypatch.setattr(hosts, "parts_of", lambda _: unsigned)
    answer = await world.client.post("/internal/v1/orders", headers=TOKEN, json=order.model_dump(mode="json"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_configured")
    monkeypatch.undo()
    assert await _answer(world, "orders", order), "nor was its lease used up"


async def _answer(world: World, path: str, message: Message) -> object:
    answer = await world.client.post(f"/internal/v1/{path}", headers=TOKEN, json=message.model_dump(mode="json"))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_older_fence_neither_starts_nor_delivers(world: World, user: User) -> None:
    order = await placed(world, user)
    async with world.database.transaction() as tx:
        grant = g.LeaseGrant(lease_id=order.lease_id, card_uuid=CARD, card_label="cpu-0", fence=order.fence)
        await leases.requeue(tx, g.Requeue(task_id=order.task_id, lease=grant))
    async with world.database.transaction() as tx:
        await leases.offer(tx, Given(order.task_id, (CARD,)))
    upload = UploadRequest(task_id=order.task_id, lease_id=order.lease_id, fence=order.fence, file=BLOB)
    for path, message in (("orders", order), ("uploads", upload)):
        answer = await world.client.post(
            f"/internal/v1/{path}", headers=TOKEN, json=message.model_dump(mode="json")
        )
        assert answer.status_code == 409
        assert set(answer.json()) == {"reason", "stray"}


@pytest.mark.parametrize("change", ["size=1&", "mime=text%2Fhtml&", "expires=99999999999&"])
async def test_an_address_allows_what_was_signed_and_no_more(world: World, change: str) -> None:
    address = await world.parts.store.sign_put(BLOB, 60)
    path, _, query = _path(world, address.url).partition("?")
    name = change.partition("=")[0]
    forged = change + "&".join(part for part in query.split("&") if not part.startswith(name))

    assert (await world.client.put(f"{path}?{forged}", content=RESULT)).status_code == 403
    assert (await world.client.get(f"{path}?{query}")).status_code == 403, "it was signed for PUT"
    assert (await world.client.put(path, content=RESULT)).status_code == 400


async def test_the_same_picture_of_two_accounts_is_stored_once_and_tells_nothing(world: World, user: User) -> None:
    other = await world.user("bob")
    mine = await world.create(user, "op-1", png(seed=3))
    theirs = await world.create(other, "op-1", png(seed=3))
    fresh = await world.create(other, "op-2", png(seed=4))

    assert len(await world.stored()) == 2
    assert set(theirs.json()) == set(mine.json()) == set(fresh.json())
    assert {name for name, _ in theirs.headers.items()} == {name for name, _ in fresh.headers.items()}
    await world.fail(theirs.json()["id"])
    assert len(await world.stored()) == 2


async def test_a_picture_sent_again_is_not_decoded_again_and_is_there_all_the_same(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.user("bob")
    picture = png(seed=5)
    assert (await world.create(user, "op-1", picture)).status_code == 202
    (stored,) = await world.stored()
    decoded: list[Path] = []
    decode_fully = world.parts.decoder.decode_fully

    async def counted(path: Path, facts: ImageFacts, *, field: str) -> ImageFacts | Failure:
        decoded.append(path)
        return await decode_fully(path, facts, field=field)

    monkeypatch.setattr(world.parts.decoder, "decode_fully", counted)

    assert (await world.create(user, "op-2", picture)).status_code == 202
    assert not decoded, "the same account's same bytes were whole the first time"
    await world.parts.store.delete(stored)
    assert (await world.create(user, "op-3", picture)).status_code == 202
    assert await world.stored() == {stored}, "what is gone meanwhile is stored again"
    assert (await world.create(other, "op-1", picture)).status_code == 202
    assert len(decoded) == 1, "another account's request goes the whole way"


def _path(world: World, url: str) -> str:
    assert url.startswith(world.parts.settings.internal_url)
    return url.removeprefix(world.parts.settings.internal_url)
