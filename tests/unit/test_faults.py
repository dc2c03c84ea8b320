"""Crash points: nothing unless armed, then exactly one death."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = "from infra import faults; faults.point('other'); faults.point('settle.committed'); print('alive')"


def run(home: Path, points: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "HOLDFAST_HOME": str(home), "HOLDFAST_FAULT_POINTS": points},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_armed_point_kills_once(tmp_path: Path) -> None:
    assert run(tmp_path, "x, settle.committed").returncode == -signal.SIGKILL
    survivor = run(tmp_path, "x, settle.committed")
    assert (survivor.returncode, survivor.stdout) == (0, "alive\n"), "the restarted process passes"


def test_nobody_else_notices(tmp_path: Path) -> None:
    assert run(tmp_path, "").stdout == "alive\n"
    assert list(tmp_path.iterdir()) == []
