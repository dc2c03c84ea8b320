"""Temporary files end with their request, and with their process if it is killed before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from api.uploads.spool import Spool

LEAVE_A_FILE = """
import sys
from pathlib import Path
from api.uploads.spool import Spool
with Spool(Path(sys.argv[1])).request() as folder:
    (folder / "half").write_bytes(b"half an upload")
    print("there", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVE_A_FILE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spool = Spool(tmp_path)
        assert spool.sweep() == 0, "what a living process needs stays"
        assert list(tmp_path.rglob("half"))
        os.kill(process.pid, signal.SIGKILL)
    assert spool.sweep() == 1
    assert list(tmp_path.rglob("half")) == []
    with spool.request() as folder:
        assert folder.is_dir()
    spool.close()
    assert list((tmp_path / "spool").iterdir()) == []
