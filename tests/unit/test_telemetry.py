"""Logs are one JSON object a line, on stderr, and without secrets."""

import json
import subprocess
import sys

TALK = """
import logging, structlog
from infra.telemetry import configure_logging
configure_logging("toy")
structlog.get_logger().info("said", password="p1", Token="p2", prompt="p3", authorization="p4", task_id="gen_x")
logging.getLogger("library").warning("from a library")
logging.getLogger("httpx").info("of no interest")
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger().exception("failed")
"""


def lines() -> tuple[str, list[dict[str, object]]]:
    done = subprocess.run([sys.executable, "-c", TALK], capture_output=True, text=True, check=True)
    return done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_each_line_is_an_object_that_names_its_process() -> None:
    out, said = lines()
    assert out == "", "stdout is for results"
    assert [line["event"] for line in said] == ["said", "from a library", "failed"]
    assert {line["process"] for line in said} == {"toy"}
    assert all(str(line["timestamp"]).endswith("Z") for line in said)
    assert "ZeroDivisionError" in str(said[2]["exception"])


def test_no_secret_gets_in() -> None:
    _, (said, *_) = lines()
    assert {said[key] for key in ("password", "Token", "prompt", "authorization")} == {"[redacted]"}
    assert said["task_id"] == "gen_x"
