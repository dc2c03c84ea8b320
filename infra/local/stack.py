"""The settings of processes that belong to the embedded stack: what the operator set, and the stack's own."""

from pydantic import SecretStr

from infra.local import ports as ports_file
from infra.local import secret
from infra.local.layout import Layout
from infra.local.ports import Ports
from infra.local.postgres import EmbeddedPostgres
from infra.settings import Settings
from infra.signatures.keys import public_half


class StackNotStartedError(Exception):
    """The embedded stack was never started here. Run `./dev up` first."""


def with_stack(settings: Settings, ports: Ports | None = None) -> Settings:
    """Fill in what the operator left to the embedded stack: addresses, secrets.

    Args:
        settings: As read from the environment.
        ports: As chosen by the supervisor; None reads those it chose last.

    Raises:
        StackNotStartedError: No ports were ever chosen.
    """
    layout = Layout(settings.home)
    ports = ports or ports_file.read(layout.run / "ports.json")
    if ports is None:
        raise StackNotStartedError(StackNotStartedError.__doc__)
    kept = secret.ensure(layout.secrets)
    filled: dict[str, object] = {"embedded": True, "api_port": ports.api}
    if settings.database_url is None:
        filled["database_url"] = SecretStr(EmbeddedPostgres(layout).conninfo())
    if settings.temporal_address is None:
        filled["temporal_address"] = f"127.0.0.1:{ports.temporal}"
        filled["temporal_ui_url"] = settings.temporal_ui_url or f"http://127.0.0.1:{ports.temporal_ui}"
    for name in ("session_secret", "signing_secret", "host_token", "receipt_key", "order_key"):
        if not getattr(settings, name).get_secret_value():
            filled[name] = SecretStr(kept[name])
    if not settings.order_public_keys:
        signs = public_half(settings.order_key.get_secret_value() or kept["order_key"])
        before = kept.get(secret.ORDER_KEY_BEFORE)
        filled["order_public_keys"] = f"{signs},{before}" if before else signs
    return settings.model_copy(update=filled)


def as_environment(settings: Settings) -> dict[str, str]:
    """The environment that makes a child process read exactly these settings."""
    environment = {}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if value is None:
            continue
        plain = value.get_secret_value() if isinstance(value, SecretStr) else value
        environment[f"HOLDFAST_{name.upper()}"] = str(plain)
    return environment
