"""n asked for, k delivered: what the caller is told, what he can fetch, and what he paid."""

import asyncio
import base64

from tests.contract.world import CANVAS, User, World
from tests.support.catalogs import VARIANTS
from tests.support.eventually import eventually
from tests.support.pictures import png
from workflows.contracts.failures import Code
from workflows.contracts.media import RefusedOutput

TASKS = f"{CANVAS}/images/tasks"
REFUSED = (
    RefusedOutput(index=0, code=Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE, message="It is black all over."),
    RefusedOutput(index=2, code=Code.MEDIA_VALIDATION_FAILED, message="The engine gave no such output."),
)
PARTIAL = {
    "asked": 4,
    "delivered": 2,
    "refused": [
        {"index": 0, "code": "image_output_local_black_collapse", "message": "It is black all over."},
        {"index": 2, "code": "media_validation_failed", "message": "The engine gave no such output."},
    ],
}
EACH = 2 + 3 + 1


async def created(world: World, user: User) -> str:
    answer = await world.create(user, "op", model=VARIANTS, n="4")
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_the_task_says_what_is_delivered_and_charged_and_why_not_all(several: World) -> None:
    user = await several.user()
    task_id = await created(several, user)
    assert (await several.balance(user)).held == 4 * EACH
    assert await several.complete_partly(user, task_id, [png(seed=1), png(seed=2)], REFUSED) == 2 * EACH
    answer = (await several.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()

    assert answer["status"] == "completed"
    assert answer["credits"] == {"status": "settled", "price": 4 * EACH, "charged": 2 * EACH}
    assert answer["partial"] == PARTIAL
    assert [one["url"].rpartition("=")[2] for one in answer["data"]] == ["0", "1"]
    assert "error" not in answer
    balance = await several.balance(user)
    assert (balance.available, balance.held, balance.spent) == (1_000 - 2 * EACH, 0, 2 * EACH)


async def test_a_whole_delivery_says_nothing_of_a_part(several: World) -> None:
    user = await several.user()
    task_id = await created(several, user)
    await several.complete_partly(user, task_id, [png(seed=seed) for seed in range(4)], ())
    answer = (await several.client.post(f"{TASKS}/{task_id}", headers=user.headers())).json()
    assert "partial" not in answer
    assert answer["credits"]["charged"] == answer["credits"]["price"] == 4 * EACH


async def test_what_was_not_delivered_is_not_there_and_the_answer_says_so(several: World) -> None:
    user = await several.user()
    task_id = await created(several, user)
    contents = [png(seed=1), png(seed=2)]
    await several.complete_partly(user, task_id, contents, REFUSED)
    for index, content in enumerate(contents):
        got = await several.client.get(f"{TASKS}/{task_id}/content?index={index}", headers=user.headers())
        assert (got.status_code, got.content) == (200, content)
    for index in (2, 3, 4):
        absent = await several.client.get(f"{TASKS}/{task_id}/content?index={index}", headers=user.headers())
        error = absent.json()["error"]
        assert (absent.status_code, error["code"], error["param"]) == (404, "resource_not_found", "index")
        assert "2 results; `index` goes from 0 to 1" in error["message"]
        assert "Of 4 asked for" in error["message"]
        assert absent.headers["x-ic-credit-status"] == "settled"


async def test_a_waiting_call_answers_with_what_there_is_and_what_it_cost(several: World) -> None:
    user = await several.user()
    files = [("image", ("in.png", png(), "image/png"))]
    waiting = asyncio.create_task(
        several.post_edit(user, "op", files=files, path="/images/edits", model=VARIANTS, n="4")
    )
    await eventually(lambda: bool(several.workflows.answers), what="the hold")
    contents = [png(seed=1), png(seed=2)]
    await several.complete_partly(user, several.workflows.admitted[0].task_id, contents, REFUSED)
    answer = await waiting
    body = answer.json()

    assert answer.status_code == 200
    assert [base64.b64decode(one["b64_json"]) for one in body["data"]] == contents
    assert body["credits"] == {"status": "settled", "price": 4 * EACH, "charged": 2 * EACH}
    assert body["partial"] == PARTIAL
    again = await several.post_edit(user, "op", files=files, path="/images/edits", model=VARIANTS, n="4")
    assert again.content == answer.content


async def test_a_cancel_after_the_end_says_what_was_delivered_charged_and_released(several: World) -> None:
    user = await several.user()
    task_id = await created(several, user)
    await several.complete_partly(user, task_id, [png(seed=1), png(seed=2)], REFUSED)
    answer = await several.client.post(f"{TASKS}/{task_id}/cancel", headers=user.headers())
    assert answer.json() == {
        "id": task_id,
        "status": "not_cancellable",
        "credits": {"status": "settled", "price": 4 * EACH, "charged": 2 * EACH, "released": 2 * EACH},
        "delivered": 2,
    }
    balance = await several.balance(user)
    assert (balance.spent, balance.held) == (2 * EACH, 0)
