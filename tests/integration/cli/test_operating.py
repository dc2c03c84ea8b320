"""Operators at the command line: the same acts as over HTTP, by the same functions, with the person's name."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from infra import accounts, generations, ledger, operators
from infra.accounts import Role
from infra.db import Database
from tests.support.generations import Ways, request
from tests.support.inprocess import InProcessCourses, InProcessGenerations
from workers.cli import operations
from workers.cli.app import whole
from workflows.contracts.generation import GenerationRequest, MarkUnknown
from workflows.contracts.states import CreditStatus


@pytest.fixture(autouse=True)
def surroundings(conninfo: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> InProcessGenerations:
    """The test's database, and workflows that need no server."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", conninfo)
    monkeypatch.setenv("HOLDFAST_TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    workflows = InProcessGenerations(database)

    async def courses(_settings: object) -> InProcessCourses:
        return InProcessCourses(workflows)

    monkeypatch.setattr(operations, "_courses", courses)
    return workflows


async def run(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, whole(), list(arguments))


async def said(*arguments: str) -> Any:
    result = await run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def doubted(ways: Ways, workflows: InProcessGenerations, operation_id: str = "op-1") -> GenerationRequest:
    """A generation whose outcome nobody knows."""
    asked = request(await ways.account(), operation_id)
    await workflows.admit(asked)
    async with ways.database.transaction() as tx:
        order = MarkUnknown(
            task_id=asked.task_id,
            since=asked.created_at,
            reason="no word",
            awaiting="the journal",
            next_look_at=asked.created_at,
            resolve_by=asked.created_at,
            raised=True,
        )
        await generations.mark_unknown(tx, order)
    return asked


async def acts(database: Database, subject: str) -> list[tuple[str, str, str]]:
    async with database.read() as reader:
        return [(act.act, act.actor, act.reason) for act in await operators.acts(reader, subject=subject)]


async def test_a_generation_is_found_explained_and_resolved(
    ways: Ways, database: Database, surroundings: InProcessGenerations
) -> None:
    asked = await doubted(ways, surroundings)
    (found,) = (await said("operation", "find", "op-1"))["data"]
    assert (found["task_id"], found["credit_status"]) == (asked.task_id, "unknown")
    for which in (asked.task_id, str(found["hold"])):
        assert (await said("operation", "find", which))["data"] == [found]
    assert (await said("operation", "find", "--account", asked.account_id))["data"] == [found]

    told = await said("operation", "explain", "op-1")
    assert told["unknown"]["awaiting"] == "the journal"
    text = (await run("operation", "explain", "op-1")).stdout
    assert "resolve: release, when it did not" in text

    for _ in range(2):
        done = await said("operation", "resolve", "op-1", "--release", "--reason", "its host burnt")
        assert done["credit_status"] == "released"
    assert await acts(database, asked.task_id) == [("resolve", "operator:ana", "its host burnt")]
    assert (await run("operation", "resolve", "op-1", "--settle", "--reason", "x")).exit_code == 1
    assert (await ways.record(asked)).credit_status is CreditStatus.RELEASED


@pytest.mark.parametrize(
    "arguments",
    [
        ("op-1", "--release", "--reason", " "),
        ("op-1", "--reason", "x"),
        ("op-1", "--release", "--settle", "--reason", "x"),
        ("op-2", "--release", "--reason", "x"),
    ],
)
async def test_a_decision_that_is_none_changes_nothing(
    ways: Ways, database: Database, surroundings: InProcessGenerations, arguments: tuple[str, ...]
) -> None:
    asked = await doubted(ways, surroundings)
    assert (await run("operation", "resolve", *arguments)).exit_code == 1
    assert (await ways.record(asked)).credit_status is CreditStatus.UNKNOWN
    assert await acts(database, asked.task_id) == []


async def test_one_operation_id_of_two_accounts_needs_to_be_told_apart(
    ways: Ways, surroundings: InProcessGenerations
) -> None:
    first, second = [await doubted(ways, surroundings) for _ in range(2)]
    assert len((await said("operation", "find", "op-1"))["data"]) == 2
    refused = await run("operation", "explain", "op-1")
    assert (refused.exit_code, first.account_id in refused.stderr) == (1, True)
    told = await said("operation", "explain", "op-1", "--account", second.account_id)
    assert told["generation"]["task_id"] == second.task_id


async def test_accounts_are_shown_adjusted_frozen_and_limited(ways: Ways, database: Database) -> None:
    account = await ways.account(100)
    assert (await said("account", "show", account))["available"] == 100
    for _ in range(2):
        arguments = ("account", "adjust", account, "--reason", "twice", "--key", "k", "--json", "--", "-30")
        assert json.loads((await run(*arguments)).stdout)["available"] == 70
    assert (await said("account", "freeze", account, "--reason", "odd"))["frozen"] is True
    assert (await said("account", "unfreeze", account, "--reason", "fine"))["frozen"] is False
    limits = await said("account", "limits", account, "--reason", "trial", "--credits-per-day", "5")
    assert limits["limits"][0]["credits_per_day"] == 5
    assert "0 of 5 credits_per_day" in (await run("account", "show", account)).stdout
    assert [act for act in await acts(database, account) if act[0] == "adjust"] == [
        ("adjust", "operator:ana", "twice")
    ]
    assert (await acts(database, f"account:{account}"))[0] == ("limit", "operator:ana", "trial")


@pytest.mark.parametrize(
    "arguments",
    [
        ("adjust", "ACCOUNT", "0", "--reason", "x"),
        ("adjust", "ACCOUNT", "1.5", "--reason", "x"),
        ("adjust", "ACCOUNT", "1000000000001", "--reason", "x"),
        ("adjust", "ACCOUNT", "--reason", "x", "--", "-101"),
        ("adjust", "ACCOUNT", "1", "--reason", " "),
        ("adjust", "ACCOUNT", "1", "--reason", "x", "--task", "gen_no"),
        ("freeze", "ACCOUNT", "--reason", ""),
        ("freeze", "nobody", "--reason", "x"),
        ("limits", "ACCOUNT", "--reason", "x", "--in-flight", "-1"),
        ("limits", "ACCOUNT", "--reason", "x", "--in-flight", "1", "--key", "key_none1234"),
        ("show", "revenue"),
    ],
)
async def test_bad_input_changes_nothing(ways: Ways, database: Database, arguments: tuple[str, ...]) -> None:
    account = await ways.account(100)
    before = await said("account", "show", account), await acts(database, account)
    refused = await run("account", *(account if word == "ACCOUNT" else word for word in arguments))
    assert refused.exit_code != 0
    assert "Traceback" not in refused.output
    assert (await said("account", "show", account), await acts(database, account)) == before


async def test_who_operates_is_said_here_alone(ways: Ways, database: Database) -> None:
    account = await ways.account(0, ledger.AccountKind.ORGANISATION)
    async with database.transaction() as tx:
        member = await accounts.create_member(
            tx, account_id=account, email="Bo@example.org", password="x", role=Role.VIEWER
        )
    for command, operates in (("add", True), ("remove", False)):
        result = await run("operator", command, "bo@example.org", "--reason", "night shift")
        assert result.exit_code == 0, result.output
        async with database.read() as reader:
            assert await operators.is_operator(reader, member.id) is operates
    assert [act for act, *_ in await acts(database, member.id)][:2] == ["member", "member"]
    assert (await run("operator", "add", "nobody@example.org", "--reason", "x")).exit_code == 1
