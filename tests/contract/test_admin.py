"""The admin surface: operators alone, each act with who and why, bad input refused with nothing changed."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from infra import generations, ledger, operators
from infra.db import Query
from tests.contract.world import User, World
from workflows.contracts import generation as g
from workflows.contracts.states import CreditStatus

ADMIN = "/admin/v1"


@dataclass(slots=True)
class Desk:
    """An operator at work."""

    world: World
    user: User

    async def get(self, path: str, **query: Any) -> httpx.Response:
        """GET."""
        return await self.world.client.get(ADMIN + path, headers=self.user.headers(), params=query)

    async def post(self, path: str, body: object, *, key: str | None = None) -> httpx.Response:
        """POST, with an operation id where one is given."""
        return await self.world.client.post(ADMIN + path, headers=self.user.headers(key), json=body)

    async def acts(self, subject: str) -> list[tuple[str, str, str]]:
        """Act, actor and reason, the latest first."""
        found = (await self.get("/acts", subject=subject)).json()["data"]
        return [(act["act"], act["actor"], act["reason"]) for act in found]


@pytest.fixture
async def desk(world: World) -> Desk:
    """A member who operates, of an account of his own."""
    user = await world.user("ops", balance=0)
    async with world.database.transaction() as tx:
        await operators.set_operator(tx, email=user.email, operates=True, reason="on duty", actor="operator:root")
    return Desk(world, user)


async def made(world: World, user: User, operation_id: str = "op-1") -> str:
    answer = await world.create(user, operation_id)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def doubted(world: World, task_id: str, *, raised: bool = True) -> None:
    """Nobody knows the outcome any more."""
    query = Query("now", "select clock_timestamp() as at")
    async with world.database.transaction() as tx:
        now = await tx.value(query)
        order = g.MarkUnknown(
            task_id=task_id,
            since=now,
            reason="no word from cpu-0's host",
            awaiting="the host's journal",
            next_look_at=now,
            resolve_by=now,
            raised=raised,
        )
        await generations.mark_unknown(tx, order)


def code(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("param")


CALLS = [
    ("GET", "/generations?task_id=gen_x"),
    ("GET", "/generations/gen_x/explain"),
    ("POST", "/generations/gen_x/resolve"),
    ("GET", "/unknown"),
    ("GET", "/sweep"),
    ("POST", "/sweep"),
    ("GET", "/acts"),
    ("GET", "/accounts/acc_ada"),
    *(
        ("POST", f"/accounts/acc_ada/{act}")
        for act in ("grant", "adjust", "freeze", "unfreeze", "limits", "share")
    ),
    ("GET", "/cards"),
    *(("POST", f"/cards/gpu-x/{act}") for act in ("cordon", "uncordon", "quarantine", "readmit")),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_nobody_but_operators_comes_in(world: World, user: User, method: str, path: str) -> None:
    nobody = await world.client.request(method, ADMIN + path)
    owner = await world.client.request(method, ADMIN + path, headers=user.headers("op"), json={})
    host = await world.client.request(
        method, ADMIN + path, headers={"Authorization": "Bearer host-token-of-tests"}
    )
    assert [code(answer)[:2] for answer in (nobody, owner, host)] == [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (401, "unauthenticated"),
    ]


def test_every_route_of_the_surface_is_among_the_calls(world: World) -> None:
    from api.admin import accounts, fleet, generations, sweep  # noqa: PLC0415 - names that the test has already

    there = {
        (method, route.path.removeprefix(ADMIN))
        for module in (accounts, fleet, generations, sweep)
        for route in module.router.routes
        for method in route.methods
    }
    tried = {
        (
            method,
            path.partition("?")[0]
            .replace("gen_x", "{task_id}")
            .replace("acc_ada", "{account_id}")
            .replace("gpu-x", "{name}"),
        )
        for method, path in CALLS
    }
    assert there == tried


async def test_who_operates_no_more_is_out_at_once(desk: Desk) -> None:
    assert (await desk.get("/unknown")).status_code == 200
    async with desk.world.database.transaction() as tx:
        await operators.set_operator(
            tx, email=desk.user.email, operates=False, reason="left", actor="operator:root"
        )
    assert code(await desk.get("/unknown"))[:2] == (403, "forbidden")


async def test_a_generation_is_found_by_operation_task_hold_and_account(desk: Desk, user: User) -> None:
    task_id = await made(desk.world, user)
    (found,) = (await desk.get("/generations", operation_id="op-1")).json()["data"]
    assert (found["task_id"], found["credit_status"], found["account_id"]) == (task_id, "held", user.account_id)
    for query in ({"task_id": task_id}, {"hold": found["hold"]}, {"account": user.account_id}):
        assert (await desk.get("/generations", **query)).json()["data"] == [found]
    assert (await desk.get("/generations", operation_id="op-2")).json()["data"] == []
    assert code(await desk.get("/generations"))[:2] == (400, "invalid_request")
    assert code(await desk.get("/generations", hold="x")) == (400, "invalid_request", "hold")
    assert code(await desk.get("/generations", task_id="\x00")) == (400, "invalid_request", "task_id")


async def test_explain_tells_the_whole_story_and_no_secret_words(desk: Desk, user: User) -> None:
    task_id = await made(desk.world, user)
    await doubted(desk.world, task_id)
    answer = await desk.get(f"/generations/{task_id}/explain")
    told = answer.json()
    assert (told["generation"]["status"], told["generation"]["credit_status"]) == ("pending", "unknown")
    assert [transfer["kind"] for transfer in told["transfers"]] == ["pending"]
    assert [event["kind"] for event in told["events"]] == ["held", "unknown"]
    assert told["unknown"]["awaiting"] == "the host's journal"
    assert told["workflow"]["standing"] == "open"
    assert any("decision" in line for line in told["awaited"])
    assert [line.partition(",")[0] for line in told["possible"]] == ["resolve: settle", "resolve: release"]
    assert {"model", "scale"} <= set(told["request"]["fields"])
    assert told["request"]["parameters"] == {"scale": 2}
    for secret in ("cpu-test-0", "boot-1", "host-token"):
        assert secret not in answer.text
    desk.world.workflows.away = True
    told = (await desk.get(f"/generations/{task_id}/explain")).json()
    assert told["workflow"] is None
    assert code(await desk.get("/generations/gen_no/explain"))[:2] == (404, "task_not_found")


@pytest.mark.parametrize(
    ("decision", "credit_status", "spent"), [("settle", "settled", 2), ("release", "released", 0)]
)
async def test_an_unknown_outcome_is_resolved_once_and_kept_with_who_and_why(
    desk: Desk, user: User, decision: str, credit_status: str, spent: int
) -> None:
    task_id = await made(desk.world, user)
    await doubted(desk.world, task_id)
    (line,) = (await desk.get("/unknown")).json()["data"]
    assert (line["task_id"], line["raised"]) == (task_id, True)

    body = {"decision": decision, "reason": "the host's disk was read"}
    for _ in range(2):
        answer = await desk.post(f"/generations/{task_id}/resolve", body)
        assert (answer.status_code, answer.json()["credit_status"]) == (200, credit_status)
    assert (await desk.world.balance(user)).spent == spent
    assert await desk.acts(task_id) == [("resolve", "operator:ops@example.org", "the host's disk was read")]
    other = {"decision": "release" if decision == "settle" else "settle", "reason": "changed my mind"}
    assert code(await desk.post(f"/generations/{task_id}/resolve", other))[:2] == (409, "already_final")
    assert (await desk.get("/unknown")).json()["data"] == []


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"decision": "settle", "reason": " "}, (400, "reason_missing", "reason")),
        ({"decision": "settle"}, (400, "reason_missing", "reason")),
        ({"decision": "settle", "reason": "x" * 501}, (400, "reason_missing", "reason")),
        ({"decision": "keep", "reason": "x"}, (400, "invalid_request", "decision")),
        ({"reason": "x"}, (400, "invalid_request", "decision")),
    ],
)
async def test_a_decision_that_is_none_changes_nothing(
    desk: Desk, user: User, body: dict[str, str], refused: tuple[int, str, str]
) -> None:
    task_id = await made(desk.world, user)
    await doubted(desk.world, task_id)
    assert code(await desk.post(f"/generations/{task_id}/resolve", body)) == refused
    assert (await desk.world.record(user, task_id)).credit_status is CreditStatus.UNKNOWN
    assert await desk.acts(task_id) == []


async def test_what_is_not_in_doubt_is_not_resolved(desk: Desk, user: User) -> None:
    task_id = await made(desk.world, user)
    body = {"decision": "release", "reason": "x"}
    for lost in (False, True):
        desk.world.workflows.lost = lost
        answer = await desk.post(f"/generations/{task_id}/resolve", body)
        assert code(answer)[:2] == (409, "nothing_to_resolve")
    await desk.world.complete(user, task_id)
    assert code(await desk.post(f"/generations/{task_id}/resolve", body))[:2] == (409, "already_final")
    assert code(await desk.post("/generations/gen_no/resolve", body))[:2] == (404, "task_not_found")
    desk.world.workflows.away = True
    second = await made_directly(desk.world, user)
    assert code(await desk.post(f"/generations/{second}/resolve", body))[:2] == (504, "gateway_timeout")


async def made_directly(world: World, user: User) -> str:
    world.workflows.away = False
    task_id = await made(world, user, "op-2")
    world.workflows.away = True
    return task_id


async def test_a_hold_whose_workflow_ran_to_its_end_is_decided_in_the_database(desk: Desk, user: User) -> None:
    task_id = await made(desk.world, user)
    desk.world.workflows.completed = True
    told = (await desk.get(f"/generations/{task_id}/explain")).json()
    assert "resolve: release, when it did not" in told["possible"]
    body = {"decision": "release", "reason": "nothing was delivered"}
    answer = await desk.post(f"/generations/{task_id}/resolve", body)
    assert (answer.status_code, answer.json()["credit_status"]) == (200, "released")
    assert [act for act, *_ in await desk.acts(task_id)] == ["resolve"]


async def test_credits_are_granted_and_adjusted_once_for_each_operation_id(desk: Desk, user: User) -> None:
    account = f"/accounts/{user.account_id}"
    for made_now in (True, False):
        answer = await desk.post(f"{account}/grant", {"credits": 50, "reason": "sorry"}, key="g-1")
        assert (answer.json()["made"], answer.json()["available"]) == (made_now, 1_050)
    for made_now in (True, False):
        answer = await desk.post(f"{account}/adjust", {"credits": -30, "reason": "mistyped"}, key="a-1")
        assert (answer.json()["made"], answer.json()["available"]) == (made_now, 1_020)
    conflict = await desk.post(f"{account}/grant", {"credits": 51, "reason": "sorry"}, key="g-1")
    assert code(conflict)[:2] == (409, "operation_conflict")
    assert await desk.acts(user.account_id) == [
        ("adjust", "operator:ops@example.org", "mistyped"),
        ("grant", "operator:ops@example.org", "sorry"),
        *(await desk.acts(user.account_id))[2:],
    ]
    gift = {"credits": 5, "reason": "spring", "cause": "promotion", "expires_at": "2999-01-01T00:00:00Z"}
    assert (await desk.post(f"{account}/grant", gift, key="p-1")).json()["expiring"] == 5


async def test_an_adjustment_never_gives_back_more_than_was_charged(desk: Desk, user: User) -> None:
    task_id = await made(desk.world, user)
    await desk.world.complete(user, task_id)
    account = f"/accounts/{user.account_id}"
    body = {"credits": 3, "reason": "grainy", "task_id": task_id}
    assert code(await desk.post(f"{account}/adjust", body, key="a-1"))[:2] == (409, "adjustment_exceeded")
    assert (await desk.post(f"{account}/adjust", body | {"credits": 2}, key="a-1")).json()["available"] == 1_000
    assert (await desk.get(f"/generations/{task_id}/explain")).json()["acts"][0]["reason"] == "grainy"
    stranger = await desk.world.user("bob")
    other = await desk.post(f"/accounts/{stranger.account_id}/adjust", body, key="a-2")
    assert code(other) == (400, "invalid_request", "task_id")


BAD_AMOUNTS: list[object] = [-1, 0, 1.5, 1.0, "5", True, None, 10**12 + 1, 10**30, [], float("1e300")]


@pytest.mark.parametrize("credits_given", BAD_AMOUNTS)
@pytest.mark.parametrize("act", ["grant", "adjust"])
async def test_what_is_no_amount_changes_nothing(desk: Desk, user: User, act: str, credits_given: object) -> None:
    if act == "adjust" and credits_given == -1:
        credits_given = -(10**12) - 1
    body = {"credits": credits_given, "reason": "x"}
    answer = await desk.post(f"/accounts/{user.account_id}/{act}", body, key="k-1")
    assert code(answer) == (400, "amount_out_of_range", "credits")
    assert (await desk.world.balance(user)).available == 1_000


@pytest.mark.parametrize(
    ("act", "body", "refused"),
    [
        ("grant", {"credits": 1, "reason": ""}, (400, "reason_missing", "reason")),
        ("adjust", {"credits": 1, "reason": "\n"}, (400, "reason_missing", "reason")),
        ("freeze", {}, (400, "reason_missing", "reason")),
        ("unfreeze", {"reason": 3}, (400, "reason_missing", "reason")),
        ("limits", {"in_flight": 1}, (400, "reason_missing", "reason")),
        ("limits", {"in_flight": -1, "reason": "x"}, (400, "amount_out_of_range", "in_flight")),
        ("limits", {"credits_per_day": 0.5, "reason": "x"}, (400, "amount_out_of_range", "credits_per_day")),
        ("limits", {"per_minute": 10**9, "reason": "x"}, (400, "amount_out_of_range", "per_minute")),
        ("limits", {"per_hour": 1, "reason": "x"}, (400, "invalid_request", "per_hour")),
        ("limits", {"in_flight": 1, "reason": "x", "key_id": "key_none1234"}, (404, "account_unknown", None)),
        ("grant", {"credits": 1, "reason": "x", "amount": 5}, (400, "invalid_request", "amount")),
        ("grant", {"credits": 1, "reason": "x", "cause": "gift"}, (400, "invalid_request", "cause")),
        ("grant", {"credits": 1, "reason": "x", "cause": "promotion"}, (400, "invalid_request", "expires_at")),
        ("grant", {"credits": 1, "reason": "x", "expires_at": "soon"}, (400, "invalid_request", "expires_at")),
        (
            "grant",
            {"credits": 1, "reason": "x", "expires_at": "2001-01-01T00:00:00Z"},
            (400, "invalid_request", "expires_at"),
        ),
        ("adjust", {"credits": -1_001, "reason": "x"}, (402, "insufficient_credits", "credits")),
        ("adjust", {"credits": 1, "reason": "x", "task_id": "gen_no"}, (404, "task_not_found", None)),
    ],
)
async def test_bad_input_is_refused_by_name_with_nothing_changed(
    desk: Desk, user: User, act: str, body: dict[str, object], refused: tuple[int, str, str | None]
) -> None:
    before = (await desk.get(f"/accounts/{user.account_id}")).json()
    acts = await desk.acts(user.account_id)
    assert code(await desk.post(f"/accounts/{user.account_id}/{act}", body, key="k-1")) == refused
    assert (await desk.get(f"/accounts/{user.account_id}")).json() == before
    assert await desk.acts(user.account_id) == acts


@pytest.mark.parametrize("account", ["nobody", "revenue", "issuance", "%00", "x" * 65])
@pytest.mark.parametrize("act", ["", "/grant", "/adjust", "/freeze", "/limits"])
async def test_an_account_that_does_not_pay_is_unknown(desk: Desk, account: str, act: str) -> None:
    body = {"reason": "x"} | ({"credits": 1} if act in {"/grant", "/adjust"} else {})
    body |= {"in_flight": 1} if act == "/limits" else {}
    path = f"/accounts/{account}{act}"
    answer = await (desk.post(path, body, key="k-1") if act else desk.get(path))
    assert code(answer)[:2] == (404, "account_unknown")


async def test_money_moves_only_under_an_operation_id(desk: Desk, user: User) -> None:
    for act in ("grant", "adjust"):
        answer = await desk.post(f"/accounts/{user.account_id}/{act}", {"credits": 1, "reason": "x"})
        assert code(answer)[:2] == (400, "operation_id_missing")


async def test_a_frozen_account_holds_nothing_until_it_is_unfrozen(desk: Desk, user: User) -> None:
    account = f"/accounts/{user.account_id}"
    assert (await desk.post(f"{account}/freeze", {"reason": "a stolen card"})).json()["frozen"] is True
    assert code(await desk.world.create(user, "op-1"))[:2] == (403, "account_frozen")
    assert (await desk.post(f"{account}/unfreeze", {"reason": "cleared"})).json()["frozen"] is False
    await made(desk.world, user, "op-2")
    assert [act for act, *_ in await desk.acts(user.account_id)][:2] == ["unfreeze", "freeze"]


async def test_limits_are_set_shown_and_taken_away(desk: Desk, user: User) -> None:
    account = f"/accounts/{user.account_id}"
    shown = (await desk.post(f"{account}/limits", {"credits_per_day": 1, "reason": "trial"})).json()
    (limit,) = shown["limits"]
    assert (limit["credits_per_day"], limit["in_flight"], limit["used"]["day"]) == (1, None, 0)
    assert code(await desk.world.create(user, "op-1"))[:2] == (402, "spending_limit_reached")
    assert (await desk.post(f"{account}/limits", {"reason": "trial over"})).json()["limits"] == []
    await made(desk.world, user, "op-2")


async def test_the_sweep_is_shown_and_started(desk: Desk) -> None:
    answer = await desk.post("/sweep", {"dry_run": True})
    assert (answer.status_code, answer.json()["status"], answer.json()["dry_run"]) == (200, "done", True)
    (order,) = desk.world.workflows.sweeps
    assert (order.dry_run, order.actor) == (True, "operator:ops@example.org")
    desk.world.workflows.silent = True
    assert (await desk.post("/sweep", {})).status_code == 202
    assert code(await desk.post("/sweep", {"dry_run": "yes"})) == (400, "invalid_request", "dry_run")
    record = Query(
        "record",
        "select record_sweep_v1('courses', array['money_step_refused'],"
        ' \'[{"kind": "money_step_refused", "subject": "gen_x", "detail": "d", "remedy": "r",'
        ' "repaired": false, "act": false}]\', 3, \'test\')',
    )
    async with desk.world.database.transaction() as tx:
        await tx.run(record)
    shown = (await desk.get("/sweep")).json()
    assert [(one["kind"], one["subject"]) for one in shown["open"]] == [("money_step_refused", "gen_x")]
    assert [(look["step"], look["looked_at"]) for look in shown["looks"]] == [("courses", 3)]


async def test_acts_are_paged(desk: Desk, user: User) -> None:
    for number in range(3):
        await desk.post(f"/accounts/{user.account_id}/freeze", {"reason": f"reason {number}"})
    first = (await desk.get("/acts", subject=user.account_id, limit=2)).json()["data"]
    rest = (await desk.get("/acts", subject=user.account_id, limit=1, before=first[-1]["id"])).json()["data"]
    assert [act["reason"] for act in (*first, *rest)] == ["reason 2", "reason 1", "reason 0"]


async def test_the_house_is_an_account_too(desk: Desk) -> None:
    shown = (await desk.get(f"/accounts/{ledger.HOUSE}")).json()
    assert (shown["kind"], shown["members"]) == ("house", [])
