"""`holdfast account` for operators: see, correct, freeze, limit; `holdfast operator`: who operates over HTTP."""

import json
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from infra import operators
from infra.db import Database, DatabaseTrouble
from infra.operators import AmountGiven, Limits, Payer
from workers.cli import accounts
from workers.cli.console import results, with_database
from workers.cli.operations import refused
from workers.cli.people import actor

T = TypeVar("T")
account_group = accounts.group
operator_group = typer.Typer(help="Members who operate the platform over HTTP.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Which = Annotated[str, typer.Argument(help="Id of the account.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the act.")]
Email = Annotated[str, typer.Argument(help="The member's address.")]


@account_group.command()
def show(account: Which, *, as_json: AsJson = False) -> None:
    """Balance, members, limits and what is used of them."""
    _shown(account, as_json=as_json)


@account_group.command()
def adjust(
    account: Which,
    credits: Annotated[int, typer.Argument(help="Whole credits; below zero takes them (behind `--`).")],  # noqa: A002  # the ledger's own word
    reason: Reason,
    *,
    task: Annotated[
        str | None, typer.Option(help="The generation that it is about: gives back or takes back.")
    ] = None,
    key: Annotated[str, typer.Option(help="An adjustment of the same key is made once.")] = "",
    as_json: AsJson = False,
) -> None:
    """Correct by a compensating entry; nothing that was booked changes."""

    async def work(database: Database) -> None:
        given = AmountGiven(
            account_id=account,
            credits=operators.amount(credits, least=-operators.CREDITS_MAX),
            key=f"cli:{key or secrets.token_hex(8)}",
            reason=operators.reason_given(reason),
            actor=actor(),
            task_id=task,
        )
        async with database.single_statement() as tx:
            await operators.adjust(tx, given)

    _run(work)
    _shown(account, as_json=as_json)


@account_group.command()
def freeze(account: Which, reason: Reason, *, as_json: AsJson = False) -> None:
    """No new holds; open generations go on."""
    _freeze(account, reason, frozen=True)
    _shown(account, as_json=as_json)


@account_group.command()
def unfreeze(account: Which, reason: Reason, *, as_json: AsJson = False) -> None:
    """Holds again."""
    _freeze(account, reason, frozen=False)
    _shown(account, as_json=as_json)


@account_group.command()
def limits(
    account: Which,
    reason: Reason,
    *,
    in_flight: Annotated[int | None, typer.Option(help="Open generations.")] = None,
    per_minute: Annotated[int | None, typer.Option(help="Creations in 60 s.")] = None,
    credits_per_day: Annotated[int | None, typer.Option(help="Credits of one day (UTC).")] = None,
    credits_per_month: Annotated[int | None, typer.Option(help="Credits of one month (UTC).")] = None,
    key: Annotated[str | None, typer.Option(help="Of this API key of the account, not of all of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set all bounds at once; those left out bound nothing."""
    wanted = Limits(
        in_flight=in_flight,
        per_minute=per_minute,
        credits_per_day=credits_per_day,
        credits_per_month=credits_per_month,
    )

    async def work(database: Database) -> None:
        operators.check_limits(wanted)
        async with database.transaction() as tx:
            await operators.set_limits(
                tx,
                account_id=account,
                key_id=key,
                limits=wanted,
                reason=operators.reason_given(reason),
                actor=actor(),
            )

    _run(work)
    _shown(account, as_json=as_json)


@operator_group.command()
def add(email: Email, reason: Reason) -> None:
    """Let a member operate: see every generation, decide unknown outcomes, give and take credits."""
    _set_operator(email, reason, operates=True)


@operator_group.command()
def remove(email: Email, reason: Reason) -> None:
    """Let a member operate no more, from the next request on."""
    _set_operator(email, reason, operates=False)


def _set_operator(email: str, reason: str, *, operates: bool) -> None:
    async def work(database: Database) -> bool:
        async with database.single_statement() as tx:
            return await operators.set_operator(
                tx, email=email, operates=operates, reason=operators.reason_given(reason), actor=actor()
            )

    changed = _run(work)
    results.print(f"{email} {'operates' if operates else 'operates no more'}{'' if changed else ', as before'}")


def _freeze(account: str, reason: str, *, frozen: bool) -> None:
    async def work(database: Database) -> bool:
        async with database.single_statement() as tx:
            return await operators.freeze(
                tx, account_id=account, frozen=frozen, reason=operators.reason_given(reason), actor=actor()
            )

    _run(work)


def _shown(account: str, *, as_json: bool) -> None:
    async def work(database: Database) -> Payer:
        async with database.read() as reader:
            return await operators.payer(reader, account)

    found = _run(work)
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json")) + "\n")
        return
    state = ", frozen" if found.frozen else ""
    results.print(f"{found.id} ({found.kind}{state}): {found.available} available, {found.held} held")
    results.print(f"  {found.spent} spent, {found.in_flight} in flight")
    if found.expiring:
        results.print(f"  {found.expiring} of the available ones expire, the first at {found.next_expiry}")
    for member in found.members:
        results.print(f"  member {member['email']}: {member['role']}", markup=False)
    for limit in found.limits:
        results.print(f"  limit of {limit['subject']}: {_limit(limit)}", markup=False)


def _limit(limit: dict[str, Any]) -> str:
    used = limit["used"]
    parts = {
        "in_flight": "in_flight",
        "per_minute": "minute",
        "credits_per_day": "day",
        "credits_per_month": "month",
    }
    return ", ".join(
        f"{used[window]} of {limit[name]} {name}" for name, window in parts.items() if limit[name] is not None
    )


def _run(work: Callable[[Database], Awaitable[T]]) -> T:
    try:
        return with_database(work)
    except DatabaseTrouble as error:
        refused(error)
