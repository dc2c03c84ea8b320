"""What clients see of the fleet, and what operators do with it."""

import json
from typing import Any

import pytest

from tests.contract.test_admin import Desk, code, desk
from tests.contract.world import CANVAS, CARD, User, World

__all__ = ["desk"]
STATUS = f"{CANVAS}/scheduler/status"
CAPABILITIES = f"{CANVAS}/scheduler/capabilities"


async def seen(world: World, user: User, path: str = f"{STATUS}?refresh=true") -> dict[str, Any]:
    answer = await world.client.get(path, headers=user.headers())
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_the_status_tells_cards_work_and_ones_own_part(world: World, user: User) -> None:
    assert (await world.create(user, "op-1")).status_code == 202
    assert (await world.create(user, "op-2")).status_code == 202
    body = await seen(world, user)
    assert body["totals"]["cards"] == len(body["cards"]) >= 1
    assert body["totals"]["running"] + body["totals"]["waiting"] == 2
    (work,) = body["workload"]
    assert work["model"] == "image-upscale"
    assert body["yours"]["running"] + body["yours"]["waiting"] == 2
    other = await world.user("other")
    assert (await seen(world, other))["yours"] == {"running": 0, "waiting": 0, "weight": 1.0, "limit": None}


async def test_nothing_internal_is_told(world: World, user: User) -> None:
    answer = await world.create(user, "op-1")
    task_id = answer.json()["id"]
    for path in (STATUS, CAPABILITIES):
        text = json.dumps(await seen(world, user, path))
        for secret in (CARD, task_id, user.account_id, "host-a", "boot"):
            assert secret not in text, (path, secret)


async def test_capabilities_say_where_a_model_goes_and_why_not(world: World, user: User) -> None:
    (model,) = [
        each for each in (await seen(world, user, CAPABILITIES))["models"] if each["model"] == "image-upscale"
    ]
    assert model["ready"] is True
    assert model["ok"] is any(route["ok"] for route in model["routes"])
    assert all((route["why"] is None) is route["ok"] for route in model["routes"])


async def test_who_is_no_operator_can_not_force_a_probe_of_capabilities(world: World, user: User) -> None:
    first = await seen(world, user, CAPABILITIES)
    assert (await seen(world, user, f"{CAPABILITIES}?refresh=true"))["at"] == first["at"]


async def test_strangers_see_nothing(world: World) -> None:
    for path in (STATUS, CAPABILITIES):
        assert (await world.client.get(path)).status_code == 401


async def test_an_operator_cordons_and_uncordons(desk: Desk) -> None:
    answer = await desk.post(f"/cards/{CARD}/cordon", {"reason": "new driver"})
    assert answer.status_code == 200, answer.text
    (card,) = [each for each in (await desk.get("/cards")).json()["cards"] if each["uuid"] == CARD]
    assert card["state"] == "cordoned"
    assert (await desk.post(f"/cards/{CARD}/uncordon", {"reason": "done"})).json() == {"changed": 1}
    assert [act[0] for act in await desk.acts(f"card:{CARD}")][:2] == ["uncordon", "cordon"]


@pytest.mark.parametrize(
    ("path", "body", "status", "refusal", "param"),
    [
        (f"/cards/{CARD}/cordon", {}, 400, "reason_missing", "reason"),
        (f"/cards/{CARD}/quarantine", {"reason": " "}, 400, "reason_missing", "reason"),
        (f"/cards/{CARD}/cordon", {"reason": "x", "force": True}, 400, "invalid_request", "force"),
        ("/cards/nowhere/cordon", {"reason": "x"}, 404, "resource_not_found", None),
        ("/accounts/nobody/share", {"reason": "x", "weight": 2}, 404, "account_unknown", None),
        ("/accounts/nobody/share", {"reason": "x", "weight": 0}, 400, "invalid_request", "weight"),
        ("/accounts/nobody/share", {"reason": "x", "weight": "2"}, 400, "invalid_request", "weight"),
        ("/accounts/nobody/share", {"reason": "x", "on_cards_max": -1}, 400, "invalid_request", "on_cards_max"),
        ("/accounts/nobody/share", {"reason": "x", "on_cards_max": 1.5}, 400, "invalid_request", "on_cards_max"),
    ],
)
async def test_bad_input_is_refused_by_name(
    desk: Desk, path: str, body: dict[str, Any], status: int, refusal: str, param: str | None
) -> None:
    assert code(await desk.post(path, body)) == (status, refusal, param)
