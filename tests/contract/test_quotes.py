"""A quote and a creation can't differ: the price quoted is the price held, and what one refuses the other does."""

from typing import Any

import httpx
import pytest

from infra.accounts import Role
from tests.contract.world import CANVAS, User, World
from tests.support.catalogs import VARIANTS
from tests.support.pictures import encoded, noise

QUOTES = f"{CANVAS}/quotes"
UPSCALE = {"model": "image-upscale", "scale": 2}
ONE = [{"width": 64, "height": 48}]


async def quote(world: World, user: User, **body: Any) -> httpx.Response:
    return await world.client.post(QUOTES, headers=user.headers(), json=body)


async def create(
    world: World, user: User, operation: str, sizes: list[dict[str, int]], **body: Any
) -> httpx.Response:
    """The creation of which a quote has the sizes only."""
    text = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in body.items()}
    fields: list[Any] = [(name, (None, value)) for name, value in text.items()]
    pictures: list[Any] = [
        (
            "image",
            (
                f"{place}.png",
                encoded(noise(8, 8, seed=place).resize((size["width"], size["height"]))),
                "image/png",
            ),
        )
        for place, size in enumerate(sizes)
    ]
    return await world.client.post(
        f"{CANVAS}/images/edits/tasks", headers=user.headers(operation), files=fields + pictures
    )


async def test_a_quote_tells_the_price_its_reasons_and_what_is_there(several: World) -> None:
    user = await several.user(balance=100)
    answer = await quote(several, user, model=VARIANTS, scale="4", n=3, images=[{"width": 300, "height": 300}])

    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "model": VARIANTS,
        "mode": "fast",
        "unit": "credit",
        "price": 21,
        "per_output": [7, 7, 7],
        "lines": [
            {"what": "base", "count": 3, "each": 2, "credits": 6},
            {"what": "image", "count": 3, "each": 3, "credits": 9},
            {"what": "output_megapixel", "count": 6, "each": 1, "credits": 6},
        ],
        "available": 100,
        "affordable": True,
    }
    assert "x-ic-credit-status" not in answer.headers
    balance = await several.balance(user)
    assert (balance.available, balance.held) == (100, 0)
    assert several.workflows.admitted == []


@pytest.mark.parametrize(
    ("sizes", "body"),
    [
        (ONE, {}),
        (ONE, {"scale": 4, "mode": "photo"}),
        ([{"width": 501, "height": 500}], {"n": 4}),
        ([{"width": 500, "height": 500}], {"n": 4, "mode": "photo"}),
        ([{"width": 16, "height": 2_000}], {"n": 2, "scale": 4}),
        (ONE, {"model": "image-upscale"}),
    ],
)
async def test_what_is_quoted_is_what_is_held(
    several: World, sizes: list[dict[str, int]], body: dict[str, Any]
) -> None:
    user = await several.user()
    asked = {"model": VARIANTS, "scale": 2} | body
    quoted = (await quote(several, user, images=sizes, **asked)).json()
    created = await create(several, user, "op", sizes, **asked)

    assert created.status_code == 202, created.text
    (admitted,) = several.workflows.admitted
    assert quoted["price"] == admitted.price_credits == (await several.balance(user)).held > 0
    assert admitted.price is not None
    assert quoted["per_output"] == list(admitted.price.per_output)
    assert quoted["price"] == admitted.price.total == sum(line["credits"] for line in quoted["lines"])
    record = await several.record(user, created.json()["id"])
    assert record.request.price == admitted.price, "the terms are frozen with the request"


@pytest.mark.parametrize(
    ("sizes", "body"),
    [
        (ONE, {"model": None}),
        (ONE, {"model": "no-such"}),
        (ONE, {"mode": "slow"}),
        (ONE, {"scale": 3}),
        (ONE, {"scale": None}),
        (ONE, {"scale": 2.5}),
        (ONE, {"scale": True}),
        (ONE, {"scale": 0}),
        (ONE, {"n": 5}),
        (ONE, {"n": 0}),
        (ONE, {"n": -1}),
        (ONE, {"surprise": "x"}),
        (ONE, {"mode": "slow", "surprise": "x", "scale": 3}),
        ([], {}),
        (ONE * 2, {}),
        (ONE * 2, {"scale": 3}),
        ([{"width": 15, "height": 64}], {"scale": 3}),
        ([{"width": 8_193, "height": 16}], {}),
        ([{"width": 1_100, "height": 1_000}], {"mode": "photo"}),
    ],
)
async def test_what_a_creation_refuses_a_quote_refuses_in_the_same_words(
    several: World, sizes: list[dict[str, int]], body: dict[str, Any]
) -> None:
    user = await several.user()
    asked = {name: value for name, value in ({"model": VARIANTS, "scale": 2} | body).items() if value is not None}
    quoted = await quote(several, user, images=sizes, **asked)
    created = await create(several, user, "op", sizes, **asked)

    assert 400 <= created.status_code < 500, created.text
    assert quoted.status_code == created.status_code
    said = created.json()["error"]
    del said["operation_id"]
    assert quoted.json()["error"] == said
    assert several.workflows.admitted == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"image": "x"}, "image"),
        ({"images": {}}, "images"),
        ({"images": ONE * 33}, "images"),
        ({"images": [{"width": 64}]}, "images[0]"),
        ({"images": [{"width": 64, "height": 0}]}, "images[0]"),
        ({"images": [{"width": -64, "height": 64}]}, "images[0]"),
        ({"images": [*ONE, {"width": 64, "height": 64.5}]}, "images[1]"),
        ({"images": [{"width": True, "height": 64}]}, "images[0]"),
        ({"images": [{"width": "64", "height": 64}]}, "images[0]"),
        ({"images": [{"width": 64, "height": 64, "depth": 1}]}, "images[0]"),
        ({"images": [{"width": 2**31, "height": 64}]}, "images[0]"),
        ({"scale": [2]}, "scale"),
        ({"scale": None}, "scale"),
    ],
)
async def test_a_body_that_is_no_quote_is_refused_by_name(
    world: World, user: User, body: dict[str, Any], param: str
) -> None:
    answer = await quote(world, user, **UPSCALE | {"images": ONE} | body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert answer.json()["error"]["param"] == param


async def test_what_a_quote_says_of_the_account_is_true_of_it(world: World) -> None:
    poor = await world.user("poor", balance=1)
    answer = (await quote(world, poor, images=ONE, **UPSCALE)).json()
    assert (answer["price"], answer["available"], answer["affordable"]) == (2, 1, False)


async def test_any_member_may_ask_and_nobody_else(world: World, user: User) -> None:
    viewer = await world.user("viewer", account=user.account_id, role=Role.VIEWER)
    assert (await quote(world, viewer, images=ONE, **UPSCALE)).status_code == 200
    stranger = await world.client.post(QUOTES, json=UPSCALE)
    assert (stranger.status_code, stranger.json()["error"]["code"]) == (401, "unauthenticated")
    beside = await world.client.post(f"{QUOTES}?scale=2", headers=user.headers(), json=UPSCALE)
    assert (beside.status_code, beside.json()["error"]["param"]) == (400, "scale")
    form = await world.client.post(QUOTES, headers=user.headers(), data={"model": "image-upscale"})
    assert form.status_code == 415
    got = await world.client.get(QUOTES, headers=user.headers())
    assert (got.status_code, got.headers["allow"]) == (405, "POST")
