"""The account that a new stack comes with, so that the first call works as printed."""

from infra import accounts, ledger
from infra.accounts import Role
from infra.db import Database
from infra.db.errors import EmailTaken
from infra.ledger import AccountKind

ACCOUNT = "demo"
EMAIL = "demo@holdfast.local"
CREDITS = 1_000
LOW = 100
"""Below this a demo tops the account up: it is there to be used."""


async def ensure(database: Database, password: str) -> None:
    """Make the account, its member and its first credits, each once."""
    async with database.transaction() as tx:
        await ledger.open_account(tx, account_id=ACCOUNT, kind=AccountKind.USER, name="Demo")
        await ledger.grant(
            tx, account_id=ACCOUNT, credits=CREDITS, reason="welcome", actor="holdfast up", key="demo:welcome"
        )
    try:
        async with database.transaction() as tx:
            await accounts.create_member(tx, account_id=ACCOUNT, email=EMAIL, password=password, role=Role.OWNER)
    except EmailTaken:
        return


async def top_up(database: Database) -> None:
    """Give the account credits again when few are left."""
    async with database.transaction() as tx:
        left = await ledger.balance(tx, ACCOUNT)
        if left.available < LOW:
            key = f"demo:top-up:{left.spent}"  # rises with use, so that two demos at once top up once
            await ledger.grant(
                tx, account_id=ACCOUNT, credits=CREDITS, reason="top-up", actor="holdfast demo", key=key
            )
