"""Keys of orders: made for a cluster, or changed here so that no order is refused meanwhile."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.local import secret
from infra.local.layout import Layout
from infra.local.ports import Ports
from infra.local.stack import as_environment, with_stack
from infra.orders import OrderKeys, OrderSigner
from infra.settings import Settings
from tests.unit.orders.test_warrants import ASK, WORK
from workers.cli.app import application
from workers.supervisor.plan import worker

PORTS = Ports(api=1, temporal=2, temporal_ui=3, temporal_http=4, temporal_metrics=5)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    (tmp_path / "run").mkdir()
    return Settings()


def call(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(application(("orders",)), ["orders", *arguments])
    return done.exit_code, done.stdout


def test_a_key_for_a_cluster_fits_its_public_half(settings: Settings) -> None:
    code, told = call("key")
    named = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    assert code == 0
    signer = OrderSigner(named["HOLDFAST_ORDER_KEY"])
    assert signer.public_key == named["HOLDFAST_ORDER_PUBLIC_KEYS"]


def test_hosts_take_orders_of_before_and_after_a_change_of_keys(settings: Settings) -> None:
    before = with_stack(settings, PORTS)
    assert call("rotate")[0] == 0
    after = with_stack(settings, PORTS)
    assert after.order_key != before.order_key
    for signs in (before, after):
        signed = OrderSigner(signs.order_key.get_secret_value()).signed_work(WORK, ASK, account_id="a")
        OrderKeys(after.order_keys).check_work(signed, ASK)
    assert call("rotate")[0] == 0
    assert len(with_stack(settings, PORTS).order_keys) == 2, "the one before the last is forgotten"


def test_a_stack_without_a_key_has_none_to_change(settings: Settings) -> None:
    assert call("rotate")[0] == 1
    assert "order_key" not in secret.read(Layout(settings.home).secrets)


def test_a_key_of_the_operators_own_is_changed_where_it_stands(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_stack(settings, PORTS)
    monkeypatch.setenv("HOLDFAST_ORDER_KEY", "A" * 43)
    assert call("rotate")[0] == 1
    own = with_stack(Settings(), PORTS)
    assert own.order_keys == (OrderSigner("A" * 43).public_key,)


def test_only_the_api_gets_the_key_that_signs(settings: Settings) -> None:
    stack = with_stack(settings, PORTS)
    assert "HOLDFAST_ORDER_KEY" in as_environment(stack)
    for name in ("orchestrator", "media", "hostagent"):
        environment = worker(name, stack).environment
        assert "HOLDFAST_ORDER_KEY" not in environment
    assert "HOLDFAST_ORDER_KEY" in worker("api", stack).environment
    assert worker("hostagent", stack).environment["HOLDFAST_ORDER_PUBLIC_KEYS"] == stack.order_public_keys
