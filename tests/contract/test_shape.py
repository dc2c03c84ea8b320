"""One shape for every error, health for deployments, and sessions."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.contract.world import CANVAS, PASSWORD, User, World, serve, settings_for


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "resource_not_found"),
        ("GET", f"{CANVAS}/images/edits/tasks", 405, "method_not_allowed"),
        ("DELETE", "/live", 405, "method_not_allowed"),
        ("GET", "/openapi.json", 404, "resource_not_found"),
        ("BREW", "/live", 400, "invalid_request"),
        ("PUT", f"{CANVAS}/images/tasks/gen_x/content", 405, "method_not_allowed"),
        ("GET", f"{CANVAS}/models", 401, "unauthenticated"),
        ("GET", f"{CANVAS}/models/", 404, "resource_not_found"),
        ("POST", "/internal/v1/report", 401, "unauthenticated"),
    ],
)
async def test_errors_have_one_shape(world: World, method: str, path: str, status: int, code: str) -> None:
    answer = await world.client.request(method, path)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(error) <= {"code", "message", "param", "operation_id", "task_id", "retryable", "doc_url"}
    assert answer.headers["x-request-id"]
    assert ("allow" in answer.headers) == (status == 405)
    assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_a_405_names_every_method_of_the_path(world: World) -> None:
    answer = await world.client.put(f"{CANVAS}/images/tasks/gen_x/content")

    assert answer.headers["allow"] == "GET, HEAD"


async def test_what_nobody_expected_is_ours_and_leaks_nothing(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr("infra.generations.find", broken)
    answer = await world.client.post(
        f"{CANVAS}/images/tasks/gen_x", headers=user.headers() | {"x-request-id": "my-own-id-1"}
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert answer.headers["x-request-id"] == "my-own-id-1"
    assert "secret" not in answer.text


async def test_an_old_client_may_keep_its_status_for_missing_credits(
    world: World, conninfo: str, tmp_path: Path
) -> None:
    poor = await world.user("poor", balance=1)
    settings = settings_for(tmp_path / "old", conninfo, legacy_credit_status=True)
    async with serve(settings, world.workflows) as (address, _), httpx.AsyncClient(base_url=address) as client:
        answer = await replace(world, client=client).create(poor, "op-1")

    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_credits")


async def test_logging_in_gives_a_session_as_token_and_as_cookie(world: World, user: User) -> None:
    answer = await world.client.post("/api/auth/login", json={"email": " Ada@Example.org ", "password": PASSWORD})

    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200
    assert {"HttpOnly", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
    by_token = await world.client.get(
        f"{CANVAS}/models", headers={"Authorization": f"Bearer {answer.json()['token']}"}
    )
    by_cookie = await world.client.get(f"{CANVAS}/models")
    assert (by_token.status_code, by_cookie.status_code) == (200, 200)


async def test_a_wrong_password_and_an_unknown_email_are_the_same(world: World, user: User) -> None:
    wrong, unknown = [
        await world.client.post("/api/auth/login", json={"email": email, "password": "no"})
        for email in (user.email, "nobody@example.org")
    ]

    assert (wrong.status_code, wrong.content) == (401, unknown.content)


async def test_guessing_is_slowed_down(world: World, user: User) -> None:
    for _ in range(10):
        await world.client.post("/api/auth/login", json={"email": user.email, "password": "no"})
    answer = await world.client.post("/api/auth/login", json={"email": user.email, "password": PASSWORD})

    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 200


@pytest.mark.parametrize("token", ["x", "Im1lbV8xIg.x.y"])
async def test_a_token_that_is_not_ours_is_none(world: World, token: str) -> None:
    answer = await world.client.get(f"{CANVAS}/models", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[]", 400),
        (b"{", 400),
        (b'{"email": 1}', 400),
        (b"{}" + b" " * 70_000, 413),
        (b"[" * 5_000, 400),
        (rb'{"email": "a\u0000", "password": "x"}', 400),
        (rb'{"email": "\ud800", "password": "x"}', 400),
        (rb'{"\u0000": 1, "email": "a", "password": "x"}', 400),
    ],
)
async def test_json_bodies_are_bounded_and_objects(world: World, body: bytes, status: int) -> None:
    answer = await world.client.post("/api/auth/login", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == status


async def test_models_tell_limits_price_and_readiness(world: World, user: User) -> None:
    (model,) = (await world.client.get(f"{CANVAS}/models", headers=user.headers())).json()["data"]

    assert (model["id"], model["ready"], model["missing"]) == ("image-upscale", True, [])
    assert [mode["id"] for mode in model["modes"]] == ["fast", "photo"]
    assert model["parameters"]["scale"]["choices"] == [2, 4]
    assert model["limits"]["image"]["bytes_max"] == world.parts.settings.upload_bytes_max
    assert model["price"] == {"unit": "credit", "base": 1, "per_output_megapixel": 1}
    assert "engine" not in model
    one = await world.client.get(f"{CANVAS}/models/image-upscale", headers=user.headers())
    assert one.json() == model
    absent = await world.client.get(f"{CANVAS}/models/no", headers=user.headers())
    assert (absent.status_code, absent.json()["error"]["code"]) == (404, "model_not_found")


async def test_live_ready_and_health(world: World) -> None:
    live = await world.client.get("/live")
    ready = await world.client.get("/ready")
    health = await world.client.get("/health")

    assert (live.status_code, live.json()) == (200, {"status": "live"})
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "missing": []})
    assert health.json()["models"] == [{"id": "image-upscale", "ready": True, "missing": []}]
    world.workflows.away = True
    missing = await world.client.get("/ready")
    assert (missing.status_code, missing.json()["missing"]) == (503, ["workflow server"])
    assert (await world.client.get("/live")).status_code == 200
    probed = await world.client.head("/live")
    assert (probed.status_code, probed.content) == (200, b"")


async def test_temporary_files_never_outlive_their_request(world: World, user: User) -> None:
    await world.create(user, "good")
    await world.create(user, "bad", b"no picture")

    assert world.spooled() == []
