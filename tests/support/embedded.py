"""A whole stack of the test's own, through nothing but its command line and its HTTP."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from infra.local import ports
from infra.local.layout import Layout
from workers import demo_account

SURFACE = "/api/proxy/v1"
COMMAND_S = 240


class EmbeddedStack:
    """One home folder, and the commands that work on it."""

    def __init__(self, home: Path, **settings: str) -> None:
        """Touch nothing yet; `settings` are environment names without their prefix."""
        self.layout = Layout(home)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        self._environment = kept | {"HOLDFAST_HOME": str(home)}
        self._environment |= {f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}

    def holdfast(self, *arguments: str, ends_with: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command; AssertionError with its words when it ends otherwise."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("holdfast")), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == ends_with, done.stdout + done.stderr
        return done

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """A client that is signed in to the demo account."""
        chosen = ports.read(self.layout.run / "ports.json")
        assert chosen is not None
        password = json.loads(self.layout.secrets.read_text())["demo_password"]
        with httpx.Client(base_url=f"http://127.0.0.1:{chosen.api}", timeout=30, trust_env=False) as client:
            answer = client.post("/api/auth/login", json={"email": demo_account.EMAIL, "password": password})
            answer.raise_for_status()
            client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
            yield client


def create(client: httpx.Client, picture: bytes, *, scale: int = 2, mode: str = "fast") -> str:
    """Ask for an enlargement; the task's id."""
    answer = client.post(
        f"{SURFACE}/images/edits/tasks",
        headers={"X-IC-Operation-ID": uuid.uuid4().hex, "X-IC-Allow-Duplicate": "true"},
        data={"model": "image-upscale", "scale": str(scale), "mode": mode},
        files={"image": ("picture.png", picture, "image/png")},
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def task(client: httpx.Client, task_id: str) -> dict[str, Any]:
    """What the API says of a task."""
    answer = client.post(f"{SURFACE}/images/tasks/{task_id}", json={})
    answer.raise_for_status()
    document: dict[str, Any] = answer.json()
    return document


def content(client: httpx.Client, task_id: str) -> bytes:
    """The first result's bytes."""
    answer = client.get(f"{SURFACE}/images/tasks/{task_id}/content", params={"index": 0})
    answer.raise_for_status()
    return answer.content
