"""`holdfast orders`: the keys that sign what hosts are told to do."""

import secrets

import typer

from infra.local import secret
from infra.local.layout import Layout
from infra.settings import Settings
from infra.signatures.keys import KEY_BYTES, public_half
from workers.cli.console import fail, results, stack_settings, steps

group = typer.Typer(help="Keys of signed orders.", no_args_is_help=True)


@group.command()
def key() -> None:
    """Make a key for a cluster: what the API gets, and what its hosts get. Nothing is kept here."""
    seed = secrets.token_urlsafe(KEY_BYTES)
    results.print(f"HOLDFAST_ORDER_KEY={seed}", markup=False)
    results.print(f"HOLDFAST_ORDER_PUBLIC_KEYS={public_half(seed)}", markup=False)
    steps.print("The first is the API's alone. To change keys, hosts get both public ones first: old,new.")


@group.command()
def keys() -> None:
    """Print the public keys that this stack's hosts check by, the one that signs first."""
    for one in stack_settings().order_keys:
        results.print(one, markup=False)


@group.command()
def rotate() -> None:
    """Make a new key for this stack; its hosts take orders under the one before as well."""
    settings = Settings()
    if settings.order_key.get_secret_value() or settings.order_public_keys:
        fail("HOLDFAST_ORDER_KEY gives the key; put another one there.", "How: docs/operate/cluster.md")
    path = Layout(settings.home).secrets
    kept = secret.read(path).get("order_key")
    if kept is None:
        fail("There is no key here yet.", "Start the stack once, which makes it: holdfast up --detach")
    secret.replace_order_key(path, public_half(kept))
    results.print(f"New key {public_half(secret.read(path)['order_key'])}", markup=False)
    steps.print("It signs from the next start on: holdfast down, holdfast up --detach")
