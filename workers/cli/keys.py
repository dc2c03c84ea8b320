"""`holdfast account key`: keys of programs that act for an account."""

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Column, Table

from infra.accounts import keys
from infra.accounts.keys import ApiKey, Scope
from infra.db import Database, DatabaseTrouble
from workers.cli.console import fail, results, with_database
from workers.cli.people import actor

group = typer.Typer(help="API keys of programs that act for an account.", no_args_is_help=True)

_DAYS_MAX = 3_650
_CURE = "Is the id right, and the stack up? holdfast status"


@group.command()
def create(
    account: Annotated[str, typer.Argument(help="Id of the account.")],
    name: Annotated[str, typer.Argument(help="What the key is for, as `shop`.")],
    *,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What it may do; repeatable. Without: generate and read.")
    ] = None,
    network: Annotated[
        list[str] | None, typer.Option(help="From where it may be used, as 192.0.2.0/24; repeatable.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=_DAYS_MAX, help="It ends after so many days.")] = None,
    reason: Annotated[str, typer.Option(help="Kept with the act.")] = "asked for by the account",
) -> None:
    """Make a key; prints its secret, this once."""
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)

    async def make(database: Database) -> tuple[ApiKey, str]:
        async with database.transaction() as tx:
            return await keys.create_key(
                tx,
                account_id=account,
                name=name,
                scopes=scope or (Scope.GENERATE, Scope.READ),
                networks=network or (),
                expires_at=expires_at,
                reason=reason,
                actor=actor(),
            )

    try:
        key, token = with_database(make)
    except ValueError as error:
        fail(f"Not made: {error}.")
    except DatabaseTrouble as error:
        fail(f"Not made: {error}", _CURE)
    results.print(f"{key.id} of {account}: {', '.join(key.scopes)}", markup=False)
    results.print(token, markup=False)


@group.command("list")
def every_key(
    account: Annotated[str, typer.Argument(help="Id of the account.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Show an account's keys; secrets are kept nowhere."""

    async def look(database: Database) -> tuple[ApiKey, ...]:
        async with database.read() as reader:
            return await keys.keys_of(reader, account)

    try:
        found = with_database(look)
    except DatabaseTrouble as error:
        fail(f"Not read: {error}", _CURE)
    if as_json:
        results.print(json.dumps([key.model_dump(mode="json") for key in found]), markup=False)
        return
    table = Table(Column("key", no_wrap=True), "name", "scopes", "networks", "made", "by", "ends")
    for key in found:
        ends = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else ""
        ends = ends or (f"{key.expires_at:%Y-%m-%d}" if key.expires_at else "never")
        cells = (key.name, ", ".join(key.scopes), ", ".join(key.allowed_networks) or "all")
        table.add_row(key.id, *cells, f"{key.created_at:%Y-%m-%d}", key.created_by, ends)
    results.print(table)


@group.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key, as key_0123456789ab.")],
    reason: Annotated[str, typer.Option(help="Kept with the act.")],
) -> None:
    """Make a key useless at once; what it began goes on."""

    async def end(database: Database) -> bool:
        async with database.transaction() as tx:
            _, now = await keys.revoke_key(tx, key_id=key, reason=reason, actor=actor())
            return now

    try:
        now = with_database(end)
    except DatabaseTrouble as error:
        fail(f"Not revoked: {error}", _CURE)
    results.print(f"{key} is revoked" if now else f"{key} was revoked before", markup=False)
