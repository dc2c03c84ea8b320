"""Spending limits as callers meet them: what was hit, whose it is, when it frees; and no race gets past one."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from infra.db import Query
from infra.limits import Limits, account_subject, key_subject, limits_of, set_limits
from tests.contract.partner import program
from tests.contract.world import User, World
from tests.support.eventually import eventually
from tests.support.pictures import png

_BACK = Query(
    "back",
    "update generation set admitted_at = admitted_at - interval '61 seconds'",
)
_HOLDS_BACK = Query("holds_back", "update transfer set created_at = created_at - interval '61 seconds'")
_DAYS_BACK = Query("days_back", "update spend_day set day = day - 1")
_FREE_TIME = (
    Query("no_guard", "alter table generation disable trigger generation_guard"),
    Query("no_guard_of_columns", "alter table generation disable trigger generation_as_admitted"),
    Query("no_guard_either", "alter table transfer disable trigger transfer_only_grows"),
)


async def limit(world: World, subject: str, **limits: int) -> None:
    async with world.database.transaction() as tx:
        await set_limits(tx, subject=subject, limits=Limits(**limits), reason="test", actor="test")


async def pass_a_minute(world: World) -> None:
    """Move all that was admitted back, as if 61 s had passed."""
    async with world.database.transaction() as tx:
        for query in (*_FREE_TIME, _BACK, _HOLDS_BACK):
            await tx.run(query)


async def test_sixty_four_at_once_against_ten_a_minute_are_exactly_ten(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), per_minute=10, in_flight=1_000)
    picture = png()
    answers = await asyncio.gather(*(world.create(user, f"op-{place}", picture) for place in range(64)))

    assert Counter(answer.status_code for answer in answers) == {202: 10, 429: 54}
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 429} == {"rate_limited"}
    assert (await world.balance(user)).held == 20


async def test_a_minute_frees_by_itself(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), per_minute=1, in_flight=100)
    assert (await world.create(user, "op-1")).status_code == 202
    refused = await world.create(user, "op-2")
    await pass_a_minute(world)
    again = await world.create(user, "op-2")

    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["retryable"]) == (429, "rate_limited", True)
    assert (error["limit"]["whose"], error["limit"]["window"], error["limit"]["limit"]) == ("account", "minute", 1)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["retry-after"] == str(error["limit"]["frees_in_s"])
    assert "x-ic-credit-status" not in refused.headers
    assert again.status_code == 202


async def test_a_days_credits_are_a_bound_and_say_when_they_free(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), credits_per_day=3, in_flight=100)
    assert (await world.create(user, "op-1")).status_code == 202
    refused = await world.create(user, "op-2")

    error = refused.json()["error"]
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    left = (midnight - datetime.now(UTC)).total_seconds()
    assert (refused.status_code, error["code"]) == (402, "spending_limit_reached")
    assert {name: error["limit"][name] for name in ("whose", "window", "limit", "used")} == {
        "whose": "account", "window": "day", "limit": 3, "used": 2,
    }  # fmt: skip
    assert abs(int(refused.headers["retry-after"]) - left) < 30
    assert "2 of its 3 credits" in error["message"]
    async with world.database.transaction() as tx:
        await tx.run(_DAYS_BACK)
    assert (await world.create(user, "op-2")).status_code == 202


async def test_a_month_is_told_before_a_day_and_frees_on_its_first(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), credits_per_day=2, credits_per_month=2, in_flight=100)
    await world.create(user, "op-1")
    refused = await world.create(user, "op-2")

    now = datetime.now(UTC)
    first = (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    assert refused.json()["error"]["limit"]["window"] == "month"
    assert abs(int(refused.headers["retry-after"]) - (first - now).total_seconds()) < 30


async def test_a_price_above_the_whole_limit_never_frees(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), credits_per_day=1)
    refused = await world.create(user, "op-1")

    assert refused.status_code == 402
    assert "retry-after" not in refused.headers
    assert refused.json()["error"]["limit"]["frees_in_s"] is None


async def test_what_was_not_charged_does_not_count(world: World, user: User) -> None:
    await limit(world, account_subject(user.account_id), credits_per_day=2, in_flight=100)
    task_id = (await world.create(user, "op-1")).json()["id"]
    assert (await world.create(user, "op-2")).status_code == 402
    await world.fail(task_id)

    assert (await world.create(user, "op-2")).status_code == 202


async def test_a_keys_limit_binds_the_key_and_the_accounts_binds_all(world: World, user: User) -> None:
    shop, other = await program(world, user), await program(world, user)
    await limit(world, key_subject(shop.key.id), in_flight=1)
    await limit(world, account_subject(user.account_id), in_flight=3)

    assert (await shop.create("op-1")).status_code == 202
    by_key = await shop.create("op-2")
    assert (by_key.status_code, by_key.json()["error"]["limit"]["whose"]) == (429, "key")
    assert (by_key.json()["error"]["code"], by_key.headers["retry-after"]) == ("quota_exceeded", "5")
    assert [(await other.create("op-3")).status_code, (await world.create(user, "op-4")).status_code] == [202, 202]
    by_account = await other.create("op-5")
    assert by_account.json()["error"]["limit"] == {
        "whose": "account", "window": "in_flight", "limit": 3, "used": 3, "frees_in_s": 5,
    }  # fmt: skip


@pytest.mark.parametrize("limits", [{"per_minute": 2}, {"credits_per_day": 4}, {"credits_per_month": 5}])
async def test_a_keys_race_ends_at_its_limit(world: World, user: User, limits: dict[str, int]) -> None:
    shop = await program(world, user)
    await limit(world, key_subject(shop.key.id), **limits)
    await limit(world, account_subject(user.account_id), in_flight=100)
    answers = await asyncio.gather(*(shop.create(f"op-{place}") for place in range(12)))

    assert Counter(answer.status_code < 300 for answer in answers) == {True: 2, False: 10}
    assert {a.json()["error"]["limit"]["whose"] for a in answers if a.status_code >= 400} == {"key"}


async def test_an_early_refusal_has_the_words_of_the_admissions_own(world: World, user: User) -> None:
    """The hold's own refusal is the judge; the look before it says the same, and starts no workflow."""
    await limit(world, account_subject(user.account_id), credits_per_day=2)
    world.workflows.gate.clear()
    late = asyncio.create_task(world.create(user, "late"))
    await eventually(lambda: world.workflows.admitted, what="the admission")
    world.workflows.gate.set()
    assert (await late).status_code == 202
    early = await world.create(user, "early")
    assert len(world.workflows.admitted) == 1

    shop = await program(world, user)
    request = world.workflows.admitted[0]
    refused = await world.workflows.admit(
        request.model_copy(update={"task_id": "gen_other", "operation_id": "other", "key_id": shop.key.id})
    )
    assert refused.refusal is not None
    assert early.json()["error"]["message"].split(" It frees")[0] == refused.refusal.message.split(" It frees")[0]


async def test_a_limit_refusal_does_not_use_the_operation_up(world: World, user: User) -> None:
    subject = account_subject(user.account_id)
    await limit(world, subject, credits_per_day=1)
    assert (await world.create(user, "op-1")).status_code == 402
    await limit(world, subject)

    assert (await world.create(user, "op-1")).status_code == 202
    async with world.database.read() as reader:
        assert await limits_of(reader, user.account_id) == ()


async def test_who_sets_a_limit_sees_what_is_used(world: World, user: User) -> None:
    shop = await program(world, user)
    await limit(world, account_subject(user.account_id), credits_per_month=50, in_flight=9)
    await limit(world, key_subject(shop.key.id), per_minute=7)
    await shop.create("op-1")
    await world.create(user, "op-2")
    async with world.database.read() as reader:
        own, keys = await limits_of(reader, user.account_id)

    assert (own.subject, own.limits) == (
        account_subject(user.account_id),
        Limits(credits_per_month=50, in_flight=9),
    )
    assert (own.use.in_flight, own.use.minute, own.use.day, own.use.month) == (2, 2, 4, 4)
    assert (keys.subject, keys.use.in_flight, keys.use.month) == (key_subject(shop.key.id), 1, 2)


@pytest.mark.parametrize("value", [-1, 1.5, "3", 10**13, True])
def test_a_limit_is_a_whole_number_within_bounds(value: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Limits.model_validate({"in_flight": value})
