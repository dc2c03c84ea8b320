"""`holdfast receipt`: show receipts, check them offline, and the keys for that."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from infra import receipts
from infra.db import Database, DatabaseTrouble
from infra.local import secret
from infra.local.layout import Layout
from infra.receipts import NotOver, PublicKey, Receipt, ReceiptRefusedError, Signer
from infra.receipts.document import BYTES_MAX
from infra.settings import Settings
from infra.signatures.keys import decoded
from workers.cli.console import fail, results, stack_settings, steps, with_database

group = typer.Typer(help="Signed receipts of generations.", no_args_is_help=True)

_START = "Start the stack once, which makes the key (holdfast up --detach), or set HOLDFAST_RECEIPT_KEY."


@group.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The receipt; - reads it from stdin.")],
    *,
    keys: Annotated[
        Path | None,
        typer.Option(help="Public keys, as `receipt keys` and GET …/receipts/keys print them; else this stack's."),
    ] = None,
) -> None:
    """Check a receipt, offline; ends with 1 when it proves nothing."""
    known = _from_file(keys) if keys is not None else _own_keys(Settings())
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            payload = receipts.verified(source.read(BYTES_MAX + 1), known)
    except OSError as error:
        fail(f"Not read: {error.strerror}.", "Is the file's name right?")
    except ReceiptRefusedError as error:
        fail(f"Refused. {error}")
    price = payload["price"]
    results.print(
        f"Good. Operation {payload['operation_id']} of {payload['account_id']}, task {payload['task_id']}: "
        f"{payload['status']}, {price['charged']} of {price['credits']} {price['unit']}s charged, "
        f"{len(payload['artifacts'])} artifacts.",
        markup=False,
    )


@group.command()
def show(task: Annotated[str, typer.Argument(help="Id of a task that is over.")]) -> None:
    """Print a task's receipt, byte for byte as its owner gets it."""
    signer = _signer(stack_settings())

    async def look(database: Database) -> Receipt | None:
        async with database.read() as reader:
            account_id = await receipts.account_of(reader, task)
        if account_id is None:
            return None
        return await receipts.receipt(database, signer, account_id=account_id, task_id=task)

    try:
        found = with_database(look)
    except NotOver:
        fail("The task is not over; it has no receipt yet.")
    except DatabaseTrouble as error:
        fail(f"Not read: {error}", "Is the stack up? holdfast status")
    if found is None:
        fail("No such task.")
    sys.stdout.buffer.write(found.document)
    sys.stdout.buffer.flush()


@group.command()
def keys() -> None:
    """Print all public keys that ever signed, for `receipt verify --keys`."""
    signer = _signer(stack_settings())

    async def look(database: Database) -> tuple[PublicKey, ...]:
        async with database.read() as reader:
            return await receipts.public_keys(reader, signer)

    try:
        found = with_database(look)
    except DatabaseTrouble as error:
        fail(f"Not read: {error}", "Is the stack up? holdfast status")
    results.print(json.dumps(receipts.key_file(found), indent=2), markup=False)


@group.command()
def rotate() -> None:
    """Make a new key for this stack's receipts; those signed before stay verifiable."""
    settings = Settings()
    if settings.receipt_key.get_secret_value():
        fail("HOLDFAST_RECEIPT_KEY gives the key; put another one there.", "Then restart the API.")
    path = Layout(settings.home).secrets
    kept = secret.read(path).get("receipt_key")
    if kept is None:
        fail("There is no key here yet.", _START)
    secret.replace_receipt_key(path, Signer(kept).public.public_key)
    results.print(f"New key {Signer(secret.read(path)['receipt_key']).public.id}")
    steps.print("It signs from the next start on: holdfast down, holdfast up --detach")


def _signer(settings: Settings) -> Signer:
    seed = settings.receipt_key.get_secret_value()
    if not seed:
        fail("There is no key to sign with.", _START)
    try:
        return Signer(seed)
    except ValueError as error:
        fail(f"HOLDFAST_RECEIPT_KEY is of no use: {error}.")


def _own_keys(settings: Settings) -> tuple[PublicKey, ...]:
    """The keys of this home or environment, without any server."""
    kept = secret.read(Layout(settings.home).secrets)
    seeds = [seed for seed in (settings.receipt_key.get_secret_value(), kept.get("receipt_key", "")) if seed]
    before = [one for one in kept.get(secret.RECEIPT_KEYS_BEFORE, "").split(",") if one]
    if not seeds:
        fail("There are no keys here to check by.", "Give --keys FILE, as from GET …/receipts/keys.")
    return (*(Signer(seed).public for seed in seeds), *(PublicKey.of(decoded(one)) for one in before))


def _from_file(path: Path) -> tuple[PublicKey, ...]:
    try:
        return receipts.read_key_file(path.read_bytes())
    except OSError as error:
        fail(f"The keys can't be read: {error.strerror}.")
    except ValueError as error:
        fail(f"{path.name} holds no keys: {error}.")
