"""`holdfast operation`: find a generation, understand it, decide an outcome that nobody knows."""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from infra import operators
from infra.db import Database, DatabaseTrouble
from infra.operators import Brief, Courses, Explanation, ServerCourses
from infra.settings import Settings
from infra.temporal.configuration import read_configuration
from infra.temporal.connection import connect
from infra.temporal.courses import Fault, Look
from infra.temporal.generations import TemporalAway
from workers.cli.console import fail, results, stack_settings
from workers.cli.people import name
from workflows.contracts.generation import Closing, Resolution
from workflows.contracts.states import Decision

T = TypeVar("T")
group = typer.Typer(
    help="Find a generation, understand it, decide an outcome that nobody knows.", no_args_is_help=True
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Which = Annotated[str, typer.Argument(help="A task's id, a caller's operation id, or a hold's number.")]
Account = Annotated[str | None, typer.Option(help="Whose: two accounts may use one operation id.")]
_TASK = re.compile(r"gen_[a-z2-7]{26}")
_HOLD = re.compile(r"[0-9]{1,18}")


@group.command()
def find(
    which: Annotated[str | None, typer.Argument(help="A task's id, an operation id, or a hold's number.")] = None,
    *,
    account: Account = None,
    as_json: AsJson = False,
) -> None:
    """Show generations by what is at hand; with --account alone, its latest ones."""
    if which is None and account is None:
        fail("Say what to look for: a task's id, an operation id, a hold's number, or --account.")

    async def look(database: Database, _settings: Settings) -> tuple[Brief, ...]:
        return await _found(database, which, account)

    found = _run(look)
    if as_json:
        _json({"data": [one.model_dump(mode="json") for one in found]})
    for one in found if not as_json else ():
        results.print(_line(one), markup=False)
    if not found:
        raise typer.Exit(1)


@group.command()
def explain(which: Which, *, account: Account = None, as_json: AsJson = False) -> None:
    """Tell the whole story of one generation: money, runs, evidence, what is awaited and what can be done."""

    async def tell(database: Database, settings: Settings) -> Explanation:
        task_id = (await _one(database, which, account)).task_id
        async with database.read() as reader:
            story = await operators.story(reader, task_id)
        look, fault = await _workflow(settings, task_id)
        return operators.explain(story, look, fault, ui_url=_ui_url(settings, task_id))

    told = _run(tell)
    if as_json:
        _json(told.model_dump(mode="json"))
    else:
        _tell(told)


@group.command()
def resolve(
    which: Which,
    *,
    settle: Annotated[bool, typer.Option("--settle", help="It ran or was delivered: charge the price.")] = False,
    release: Annotated[bool, typer.Option("--release", help="It did not: give the hold back.")] = False,
    reason: Annotated[str, typer.Option(help="Why; kept with the posting.")],
    account: Account = None,
    as_json: AsJson = False,
) -> None:
    """Decide an outcome that nobody knows. Kept with who, why and when."""
    if settle == release:
        fail("Decide one: --settle or --release.")
    decision = Decision.SETTLE if settle else Decision.RELEASE

    async def decide(database: Database, settings: Settings) -> Closing:
        task_id = (await _one(database, which, account)).task_id
        resolution = Resolution(decision=decision, reason=operators.reason_given(reason), actor=name())
        return await operators.decide(database, await _courses(settings), task_id, resolution)

    closing = _run(decide)
    if as_json:
        _json(closing.model_dump(mode="json"))
    else:
        results.print(f"{closing.task_id}: {closing.status.value}, credits {closing.credit_status.value}")


async def _found(database: Database, which: str | None, account: str | None) -> tuple[Brief, ...]:
    """A word that looks like an id of ours may be some caller's operation id all the same."""
    async with database.read() as reader:
        if which is not None and _TASK.fullmatch(which):
            found = await operators.find(reader, task_id=which, account_id=account)
        elif which is not None and _HOLD.fullmatch(which):
            found = await operators.find(reader, hold=int(which), account_id=account)
        else:
            found = ()
        return found or await operators.find(reader, operation_id=which, account_id=account)


async def _one(database: Database, which: str, account: str | None) -> Brief:
    found = await _found(database, which, account)
    if not found:
        fail(f"No generation with the task, operation or hold {which}.", "Whose may it be? --account ID lists")
    if len(found) > 1:
        accounts = ", ".join(sorted({one.account_id for one in found}))
        fail(f"{len(found)} accounts used the operation id {which}: {accounts}.", "Say which: --account ID")
    return found[0]


async def _courses(settings: Settings) -> Courses:
    return ServerCourses(await connect(settings))


async def _workflow(settings: Settings, task_id: str) -> tuple[Look | None, Fault | None]:
    """A server that is away is no reason not to tell the rest."""
    try:
        courses = await _courses(settings)
        look = await courses.look(task_id)
        return look, await courses.fault(task_id, look)
    except (RuntimeError, TemporalAway):
        return None, None


def _ui_url(settings: Settings, task_id: str) -> str | None:
    if settings.temporal_ui_url is None:
        return None
    namespace = read_configuration(settings).namespace.name
    return f"{settings.temporal_ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{task_id}"


def _run(work: Callable[[Database, Settings], Awaitable[T]]) -> T:
    settings = stack_settings()

    async def run() -> T:
        async with Database.from_settings(settings, application="cli", pool_max=2) as database:
            return await work(database, settings)

    try:
        return asyncio.run(run())
    except DatabaseTrouble as error:
        refused(error)
    except (RuntimeError, TemporalAway) as error:
        fail(f"Temporal did not answer: {error}", "A decision may have been taken: holdfast operation explain")


def refused(error: DatabaseTrouble) -> NoReturn:
    """End the command with what the database refused, or that it is away."""
    fail(f"{type(error).__name__}: {error}", "Nothing was changed. Is the stack up? holdfast status")


def _json(content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")


def _line(one: Brief) -> str:
    raised = ", raised" if one.raised else ""
    return (
        f"{one.task_id}  {one.account_id}  {one.operation_id}  hold {one.hold}  {one.model_id} {one.mode}  "
        f"{one.status}/{one.phase}  {one.price_credits} credits {one.credit_status}{raised}  "
        f"{one.admitted_at:%Y-%m-%d %H:%M:%S}"
    )


def _tell(told: Explanation) -> None:
    row = told.generation
    _say(f"{row['task_id']}  {row['account_id']}  operation {row['operation_id']}")
    _say(f"{row['model_id']} {row['mode']}: {row['status']}, {row['phase']}")
    _say(f"{row['price_credits']} credits {row['credit_status']}, {row['charged_credits']} charged")
    if told.unknown:
        _say(f"unknown since {told.unknown['unknown_since']}: {told.unknown['unknown_reason']}")
    workflow = told.workflow
    _say(f"workflow: {workflow['status'] if workflow else 'the server did not answer'}")
    if workflow and workflow["web_ui"]:
        _say(f"  {workflow['web_ui']}")
    _part(
        "money", [f"{t['at']}  {t['kind']}  {t['credits']}  {t['actor']}: {t['reason']}" for t in told.transfers]
    )
    _part("runs", [f"{r['card']} fence {r['fence']}  {r['state']} {r['end_reason'] or ''}" for r in told.leases])
    _part("events", [f"{e['at']}  {e['kind']}  {json.dumps(e['data'])}" for e in told.events])
    _part(
        "looks",
        [f"{one['at']}  {one.get('source')}: {one.get('finding')}. {one.get('said')}" for one in told.looks],
    )
    _part("kept", [f"{a['index']}  {a['sha256']}  {a['size']} bytes" for a in told.artifacts])
    _part("operators", [f"{a['at']}  {a['act']}  {a['actor']}: {a['reason']}" for a in told.acts])
    _part(
        "sweep", [f"{f['found_at']}  {f['kind']}  {f['outcome'] or 'open'}: {f['detail']}" for f in told.findings]
    )
    _part("awaited", told.awaited)
    _part("you may", told.possible)


def _part(title: str, lines: list[str]) -> None:
    if lines:
        _say(f"{title}:")
    for line in lines:
        _say(f"  {line}")


def _say(line: str) -> None:
    results.print(line, markup=False)
