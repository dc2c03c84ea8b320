"""`holdfast account`: local accounts and their credits."""

import getpass
import os
import secrets
from enum import StrEnum
from typing import Annotated

import typer

from infra import accounts, ledger
from infra.accounts import Role
from infra.db import Database, DatabaseTrouble
from infra.ledger import AccountKind
from workers.cli import keys
from workers.cli.console import fail, results, with_database

group = typer.Typer(help="Local accounts and their credits.", no_args_is_help=True)
group.add_typer(keys.group, name="key")
members = typer.Typer(help="Who acts for an organisation.", no_args_is_help=True)
group.add_typer(members, name="member")


class Kind(StrEnum):
    """Accounts that people can have."""

    USER = "user"
    ORGANISATION = "organisation"


@group.command()
def create(
    account: Annotated[str, typer.Argument(help="Id of the account, as `acme`; made where it isn't.")],
    email: Annotated[str, typer.Option(help="Who signs in for it.")],
    *,
    kind: Annotated[Kind, typer.Option(help="One person's, or shared by members.")] = Kind.USER,
    role: Annotated[Role, typer.Option(help="What they may do; a user's one member is its owner.")] = Role.OWNER,
) -> None:
    """Make an account and somebody who acts for it; prints a password once."""
    password = secrets.token_urlsafe(18)

    async def make(database: Database) -> None:
        async with database.transaction() as tx:
            await ledger.open_account(tx, account_id=account, kind=AccountKind(kind.value), name=account)
            await accounts.create_member(tx, account_id=account, email=email, password=password, role=role)

    try:
        with_database(make)
    except DatabaseTrouble as error:
        fail(f"Not made: {error}", "Is the address in use already? Is the stack up? holdfast status")
    results.print(f"{email} acts for {account} as {role.value}; password {password}")


@members.command()
def add(
    account: Annotated[str, typer.Argument(help="Id of the organisation.")],
    email: Annotated[str, typer.Option(help="Who signs in for it.")],
    *,
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.EDITOR,
) -> None:
    """Let somebody more act for an organisation and spend its credits; prints a password once."""
    password = secrets.token_urlsafe(18)

    async def join(database: Database) -> None:
        async with database.transaction() as tx:
            await accounts.create_member(tx, account_id=account, email=email, password=password, role=role)

    try:
        with_database(join)
    except DatabaseTrouble as error:
        fail(f"Not added: {error}", "Only an organisation that exists takes more members, each address once.")
    results.print(f"{email} acts for {account} as {role.value}; password {password}")


@group.command()
def grant(
    account: Annotated[str, typer.Argument(help="Id of the account.")],
    credits: Annotated[int, typer.Argument(min=1, max=10**12, help="Whole credits.")],  # noqa: A002  # the ledger's own word
    reason: Annotated[str, typer.Option(help="Kept with the posting.")],
    *,
    key: Annotated[str, typer.Option(help="A grant of the same key is made once.")] = "",
) -> None:
    """Give credits to an account."""
    once = key or f"cli:{secrets.token_hex(8)}"
    actor = f"operator:{_who()}"

    async def give(database: Database) -> int:
        async with database.transaction() as tx:
            await ledger.grant(tx, account_id=account, credits=credits, reason=reason, actor=actor, key=once)
            return (await ledger.balance(tx, account)).available

    try:
        available = with_database(give)
    except DatabaseTrouble as error:
        fail(f"Not granted: {error}", "Is the id right, and the stack up? holdfast status")
    results.print(f"{account} has {available} credits available")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        return f"uid-{os.getuid()}"
