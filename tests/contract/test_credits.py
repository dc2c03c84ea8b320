"""What clients read of their credits: a balance that adds up, and a statement without gaps."""

import asyncio
import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.accounts import Role
from infra.db import Query
from tests.contract.partner import program
from tests.contract.world import CANVAS, User, World

STATEMENT = f"{CANVAS}/credits/statement"
_GRANT = Query(
    "grant",
    "select holdfast.grant_v1(%(account)s, %(credits)s, %(cause)s, %(expires)s, %(reason)s,"
    " 'operator:eve', %(reason)s)",
)
_ADJUST = Query(
    "adjust",
    "select holdfast.adjust_v1(%(account)s, %(credits)s, %(task)s, %(reason)s, 'operator:eve', %(reason)s)",
)
_NO_GUARD = Query("no_guard", "alter table credit_lot disable trigger credit_lot_guard")
_DUE = Query("due", "update credit_lot set expires_at = clock_timestamp() - interval '1 s'")
_EXPIRE = Query("expire", "select holdfast.expire_lots_v1(null, 100)")


async def give(world: World, user: User, amount: int, cause: str, reason: str, days: int | None = None) -> None:
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    async with world.database.transaction() as tx:
        await tx.run(_GRANT, account=user.account_id, credits=amount, cause=cause, expires=expires, reason=reason)


async def balance(world: World, user: User) -> dict[str, Any]:
    answer = await world.client.get(f"{CANVAS}/credits", headers=user.headers())
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def lines(world: World, user: User, **query: str) -> list[dict[str, Any]]:
    """All lines, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await world.client.get(STATEMENT, headers=user.headers(), params=query)
        assert answer.status_code == 200, answer.text
        found += answer.json()["lines"]
        if answer.json()["next_cursor"] is None:
            return found
        query = {"cursor": answer.json()["next_cursor"]} | ({"limit": query["limit"]} if "limit" in query else {})


async def every_kind(world: World, user: User) -> None:
    """Something of each kind that a client's statement can have."""
    await give(world, user, 50, "top_up", "card 4711")
    await give(world, user, 7, "promotion", "welcome", days=3)
    done, failed, _ = [(await world.create(user, f"op-{place}")).json()["id"] for place in range(3)]
    await world.complete(user, done)
    await world.fail(failed)
    async with world.database.transaction() as tx:
        await tx.run(_ADJUST, account=user.account_id, credits=1, task=done, reason="a stripe in it")
        await tx.run(_NO_GUARD)
        await tx.run(_DUE)


async def test_the_balance_says_what_there_is_what_is_held_and_what_expires(world: World, user: User) -> None:
    await give(world, user, 7, "promotion", "welcome", days=3)
    await give(world, user, 5, "promotion", "later", days=9)
    first = (await world.create(user, "op-1")).json()["id"]
    await world.create(user, "op-2")
    await world.complete(user, first)
    found = await balance(world, user)

    expiring = [one["credits"] for one in found.pop("expiring")]
    assert found == {"unit": "credit", "posted": 1_010, "held": 2, "available": 1_008, "spent": 2}
    assert expiring == [3, 5], "what expires first was used first"


async def test_what_is_past_its_date_never_counts_booked_or_not(world: World, user: User) -> None:
    await give(world, user, 7, "promotion", "welcome", days=3)
    async with world.database.transaction() as tx:
        await tx.run(_NO_GUARD)
        await tx.run(_DUE)
    before = await balance(world, user)
    async with world.database.transaction() as tx:
        await tx.value(_EXPIRE)
    after = await balance(world, user)

    assert before == after
    assert (after["posted"], after["spent"], after["expiring"]) == (1_000, 0, [])


async def test_a_statement_adds_up_line_by_line(world: World, user: User) -> None:
    await every_kind(world, user)
    async with world.database.transaction() as tx:
        await tx.value(_EXPIRE)
    found = await lines(world, user)

    assert {line["kind"] for line in found} == {
        "grant", "top_up", "promotion", "hold", "settled", "released", "adjustment", "expiry",
    }  # fmt: skip
    posted = held = 0
    for line in reversed(found):
        posted, held = posted + line["credits"], held + line["held"]
        assert (line["posted_after"], line["held_after"], line["available_after"]) == (posted, held, posted - held)
    now = await balance(world, user)
    assert (posted, held) == (now["posted"], now["held"])
    settled = next(line for line in found if line["kind"] == "settled")
    assert (settled["credits"], settled["held"], settled["operation_id"]) == (-2, -2, "op-0")
    assert (settled["made_by"], settled["made_by_name"]) == (user.member_id, user.email)
    adjustment = next(line for line in found if line["kind"] == "adjustment")
    assert (adjustment["credits"], adjustment["reason"]) == (1, "a stripe in it")
    assert adjustment["task_id"] == settled["task_id"]
    assert "eve" not in str(found), "operators aren't named to clients"


@pytest.mark.parametrize("limit", ["1", "2", "1000"])
async def test_pages_of_any_length_are_the_same_statement(world: World, user: User, limit: str) -> None:
    await every_kind(world, user)

    assert await lines(world, user, limit=limit) == await lines(world, user)


async def test_pages_have_no_gaps_and_no_doubles_while_others_write(world: World, user: User) -> None:
    """What is booked meanwhile stands before the first page; what was there is there once, with its figures."""
    await every_kind(world, user)
    before = await lines(world, user)
    writing = asyncio.gather(
        *(give(world, user, 1 + place, "top_up", f"meanwhile {place}") for place in range(20))
    )
    read = [await lines(world, user, limit="2") for _ in range(4)]
    await writing

    for one in read:
        ids = [int(line["id"]) for line in one]
        assert ids == sorted(set(ids), reverse=True)
        assert one[-len(before) :] == before
    assert (await lines(world, user))[-len(before) :] == before


async def test_a_span_has_its_lines_with_the_figures_of_the_whole(world: World, user: User) -> None:
    await every_kind(world, user)
    whole = await lines(world, user)
    since, until = whole[-3]["at"], whole[1]["at"]

    assert await lines(world, user, **{"from": since, "to": until}, limit="2") == whole[2:-2]
    assert await lines(world, user, **{"from": until}) == whole[:2]
    assert await lines(world, user, to=whole[-1]["at"]) == []


async def test_a_csv_is_the_whole_statement_and_runs_no_formula(world: World, user: User) -> None:
    await every_kind(world, user)
    await give(world, user, 3, "top_up", '=HYPERLINK("http://x")')
    await world.create(user, "=1+1")
    whole = await lines(world, user)
    answer = await world.client.get(STATEMENT, headers=user.headers() | {"Accept": "text/csv"})
    named = await world.client.get(STATEMENT, headers=user.headers(), params={"format": "csv"})

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert answer.content == named.content
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in rows] == [line["id"] for line in whole]
    assert [int(row["credits"]) for row in rows] == [line["credits"] for line in whole]
    cells = [cell for row in rows for name, cell in row.items() if name not in {"credits", "held"}]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == []
    assert {"'=1+1", '\'=HYPERLINK("http://x")'} <= set(cells)


async def test_a_csv_longer_than_a_page_is_whole(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.canvas.credits.LINES_MAX", 2)
    await every_kind(world, user)
    answer = await world.client.get(STATEMENT, headers=user.headers(), params={"format": "csv"})

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in rows] == [line["id"] for line in await lines(world, user)]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "eyJsYXN0Ijo5OTk5OTk5OTk5OTk5OTk5OTk5OTl9"}, "cursor"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-12-01T00:00:00"}, "from"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"format": "xml"}, "format"),
        ({"format": "csv", "limit": "5"}, "limit"),
    ],
)
async def test_what_does_not_fit_is_named(world: World, user: User, query: dict[str, str], param: str) -> None:
    answer = await world.client.get(STATEMENT, headers=user.headers(), params=query)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_members_of_an_organisation_share_one_statement_and_see_who_made_what(
    world: World, user: User
) -> None:
    colleague = await world.user("bob", account=user.account_id, role=Role.EDITOR)
    shop = await program(world, user)
    await world.create(user, "op-1")
    await world.create(colleague, "op-2")
    await shop.create("op-3")

    made = {
        line["operation_id"]: line["made_by_name"] for line in await lines(world, colleague) if line["task_id"]
    }
    assert made == {"op-1": user.email, "op-2": colleague.email, "op-3": "the shop's server"}
    assert (await shop.get("/credits/statement")).json()["lines"] == await lines(world, user)


async def test_a_strangers_lines_are_nobodys(world: World, user: User) -> None:
    other = await world.user("bob", balance=5)
    await every_kind(world, user)
    theirs = await world.client.get(STATEMENT, headers=user.headers(), params={"limit": "1"})
    cursor = theirs.json()["next_cursor"]

    assert [line["credits"] for line in await lines(world, other)] == [5]
    assert all(line["credits"] == 5 for line in await lines(world, other, cursor=cursor))
    assert (await balance(world, other))["posted"] == 5
