"""The calls that `holdfast up` prints are a script: a task's id goes from one into the next by itself."""

import subprocess
from pathlib import Path

from workers.cli.stack import curl_lines


def test_the_id_of_the_created_task_reaches_the_calls_that_need_it(tmp_path: Path) -> None:
    lines = curl_lines("http://127.0.0.1:1", "secret")
    (tmp_path / "task.json").write_text('{"id":"gen_abc","status":"pending","compute":{"resource":"cpu-0"}}')
    taking = next(line for line in lines if line.startswith("TASK_ID="))
    script = f'{taking}\nprintf %s "$TASK_ID"'
    found = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert found.stdout == "gen_abc"
    assert [line.count("$TASK_ID") for line in lines] == [0, 0, 0, 1, 1]
    assert "tee task.json" in lines[1]


def test_every_line_is_one_that_a_shell_reads(tmp_path: Path) -> None:
    for line in curl_lines("http://127.0.0.1:1", "secret"):
        subprocess.run(["sh", "-n", "-c", line], cwd=tmp_path, check=True)
