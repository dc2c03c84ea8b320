"""Receipts as their owners fetch them: signed, whole, the same bytes each time, nothing internal in them."""

import json

import pytest

from infra import leases
from infra.db import Query
from infra.receipts import Signer, read_key_file, verified
from tests.contract.partner import PARTNER, program
from tests.contract.test_tasks import ABSENT, TASKS, created
from tests.contract.world import CANVAS, CARD, RECEIPT_KEY, User, World
from workflows.contracts.hosts import OrderRequest

_LEASE = Query("lease", "select id::text, fence from lease where task_id = %(task)s")
_ADJUST = Query("adjust", "select holdfast.adjust_v1(%(account)s, 1, %(task)s, 'a stripe', 'operator:eve', 'adj')")


async def fetched(world: World, user: User, task_id: str) -> bytes:
    answer = await world.client.get(f"{TASKS}/{task_id}/receipt", headers=user.headers())
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.content


async def keys(world: World) -> bytes:
    """As anybody may fetch them."""
    answer = await world.client.get(f"{CANVAS}/receipts/keys")
    assert answer.status_code == 200
    return answer.content


async def ran(world: World, user: User) -> str:
    """A task whose order a host fetched, and which completed."""
    await world.uncordon()
    task_id = await created(world, user)
    async with world.database.transaction() as tx:
        lease = await tx.one(_LEASE, task=task_id)
        assert lease is not None
        order = OrderRequest(
            task_id=task_id, lease_id=lease["id"], card_uuid=CARD, fence=lease["fence"], boot_id="boot-1"
        )
        await leases.open_order(tx, order)
    await world.complete(user, task_id)
    return task_id


async def test_a_receipt_says_what_was_made_and_paid_and_anybody_can_check_it(world: World, user: User) -> None:
    task_id = await ran(world, user)
    payload = verified(await fetched(world, user, task_id), read_key_file(await keys(world)))

    record = await world.record(user, task_id)
    assert (payload["task_id"], payload["operation_id"], payload["account_id"]) == (
        task_id,
        "op-1",
        user.account_id,
    )
    assert payload["made_by"] == user.member_id
    assert payload["model"]["digest"] == record.request.model.digest
    assert [one["sha256"] for one in payload["inputs"]] == [record.request.inputs[0].blob.sha256]
    assert [one["sha256"] for one in payload["artifacts"]] == [record.artifacts[0].sha256]
    (attempt,) = payload["attempts"]
    assert (attempt["card"], attempt["gpu_model"], attempt["ended_as"]) == ("cpu-0", "CPU", "completed")
    assert [(one["kind"], one["credits"]) for one in payload["postings"]] == [("hold", 2), ("settled", 2)]
    assert payload["price"] == {"unit": "credit", "credits": 2, "per_output": [2], "charged": 2}
    assert (payload["status"], payload["credit_status"], payload["code"]) == ("completed", "settled", None)
    assert payload["times"]["finished"].endswith("Z")
    assert payload["times"]["late"] is None


async def test_a_receipt_holds_nothing_internal(world: World, user: User) -> None:
    task_id = await ran(world, user)
    text = (await fetched(world, user, task_id)).decode()

    settings = world.parts.settings
    for secret in (
        CARD,
        "boot-1",
        "test",
        str(settings.home),
        settings.public_url,
        "engine",
        RECEIPT_KEY,
        "native",
    ):
        assert secret not in text.replace('"made_by":"', ""), secret


async def test_the_same_receipt_is_the_same_bytes_whatever_happens_since(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await program(world, user)
    task_id = await ran(world, user)
    first = await fetched(world, user, task_id)
    async with world.database.transaction() as tx:
        await tx.value(_ADJUST, account=user.account_id, task=task_id)
    await world.expire_artifacts()
    monkeypatch.setattr(world.parts.signer, "_key", Signer("B" * 42 + "A")._key)
    monkeypatch.setattr(world.parts.signer, "public", Signer("B" * 42 + "A").public)

    assert await fetched(world, user, task_id) == first
    assert (await shop.get(f"/images/tasks/{task_id}/receipt")).content == first
    other = await created(world, user, "op-2")
    await world.complete(user, other)
    known = read_key_file(await keys(world))
    assert len(known) == 2, "the key of before stays among the published ones"
    assert {verified(one, known)["task_id"] for one in (first, await fetched(world, user, other))} == {
        task_id,
        other,
    }


async def test_a_receipt_of_a_failure_says_that_nothing_was_paid(world: World, user: User) -> None:
    task_id = await created(world, user)
    await world.fail(task_id)
    payload = verified(await fetched(world, user, task_id), read_key_file(await keys(world)))

    assert (payload["status"], payload["credit_status"], payload["code"]) == (
        "failed",
        "released",
        "upstream_failed",
    )
    assert payload["price"]["charged"] == 0
    assert payload["artifacts"] == []
    assert [(one["kind"], one["credits"]) for one in payload["postings"]] == [("hold", 2), ("released", 0)]


async def test_before_the_end_there_is_none(world: World, user: User) -> None:
    task_id = await created(world, user)
    answer = await world.client.get(f"{TASKS}/{task_id}/receipt", headers=user.headers())

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "task_not_finished")
    assert answer.headers["x-ic-credit-status"] == "held"
    assert answer.json()["error"]["task_id"] == task_id


@pytest.mark.parametrize("own", [ABSENT, "x%00y", "A" * 99])
async def test_a_strangers_receipt_is_as_absent_as_one_that_never_was(world: World, user: User, own: str) -> None:
    task_id = await created(world, user)
    await world.complete(user, task_id)
    stranger = await world.user("bob")
    strange = await world.client.get(f"{TASKS}/{task_id}/receipt", headers=stranger.headers())
    absent = await world.client.get(f"{TASKS}/{own}/receipt", headers=stranger.headers())

    assert (strange.status_code, strange.content) == (404, absent.content)


async def test_published_keys_are_public_halves(world: World) -> None:
    assert RECEIPT_KEY.encode() not in await keys(world)
    published = json.loads(await keys(world))
    assert published["keys"][0]["key_id"] == Signer(RECEIPT_KEY).public.id
    assert (await world.client.get(f"{PARTNER}/receipts/keys")).json() == published
