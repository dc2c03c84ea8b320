"""`holdfast demo`: the main job on a real picture, through the same HTTP calls that any client makes."""

import hashlib
import json
import mimetypes
import sys
import time
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from PIL import Image, UnidentifiedImageError
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra import ledger
from infra.db import Database
from infra.ledger import Balance
from infra.local import secret
from infra.local.layout import Layout
from infra.local.stack import with_stack
from infra.settings import Settings
from workers import demo_account
from workers.cli import stack
from workers.cli.console import fail, progress, results, steps, with_database
from workers.cli.patience import good, patiently

SURFACE = "/api/proxy/v1"
MODEL = "image-upscale"
READY_S = 120.0
"""The canary of a fresh card takes about 2 s; a loaded machine is given far more."""
RUN_S = 1_800.0
_LOOK_S = 0.2
_CALL_S = 30.0


def demo(
    image: Annotated[Path | None, typer.Argument(help="A picture; without one, a photograph.")] = None,
    *,
    scale: Annotated[int, typer.Option(help="2 or 4.")] = 2,
    mode: Annotated[str, typer.Option(help="`fast` or `photo`.")] = "fast",
    output: Annotated[Path | None, typer.Option(help="Where the result goes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Enlarge a real photograph as a durable, paid-for generation. Starts the stack and leaves it running."""
    picture = _picture(image)
    settings = Settings()
    stack.bring_up(settings)
    full = with_stack(settings)
    patiently(lambda: with_database(demo_account.top_up))
    with httpx.Client(base_url=full.public_url, timeout=_CALL_S, trust_env=False) as client:
        _sign_in(client, settings)
        _wait_until_ready(client)
        before = _balance()
        began = time.monotonic()
        task = _look(client, _create(client, picture, scale, mode)["id"])
        steps.print(f"held     {task['credits']['price']} credits of {before.available}")
        ended = _follow(client, task["id"])
        if ended["status"] != "completed":
            error = ended.get("error") or {}
            fail(
                f"It ended as {ended['status']}: {error.get('message', 'no reason given')}",
                "holdfast logs hostagent",
            )
        target = output or settings.home / "demo" / f"{picture.stem}-{scale}x.png"
        digest = _download(client, task["id"], target)
        seconds = time.monotonic() - began
        after = _balance()
    document = _document(picture, target, digest, ended, before, after, seconds)
    document["workflow_url"] = f"{full.temporal_ui_url}/namespaces/holdfast/workflows/{task['id']}"
    if as_json:
        sys.stdout.write(json.dumps(document) + "\n")
        return
    _tell(document)
    stack.print_addresses(settings)


def _picture(given: Path | None) -> Path:
    if given is not None:
        picture = given
    else:
        spec = find_spec("skimage")
        if spec is None or spec.origin is None:
            fail(
                "The demo's photographs come with scikit-image, which isn't installed.", "Name a picture of yours."
            )
        picture = Path(spec.origin).parent / "data" / "astronaut.png"
    try:
        with Image.open(picture):
            return picture.absolute()
    except (OSError, UnidentifiedImageError) as error:
        fail(f"{picture} can't be read as a picture: {error}", "Name a PNG, JPEG or WebP file.")


def _sign_in(client: httpx.Client, settings: Settings) -> None:
    password = secret.ensure(Layout(settings.home).secrets)["demo_password"]
    body = {"email": demo_account.EMAIL, "password": password}
    session = patiently(lambda: good(client.post("/api/auth/login", json=body)))
    client.headers["Authorization"] = f"Bearer {session['token']}"


def _wait_until_ready(client: httpx.Client) -> None:
    """The canary is a real request of the house's own; until one passed, the model takes none."""
    deadline = time.monotonic() + READY_S
    with progress("Demo") as say:
        say("waiting for the model's canary")
        while time.monotonic() < deadline:
            model = patiently(lambda: good(client.get(f"{SURFACE}/models/{MODEL}")))
            if model["ready"]:
                return
            time.sleep(_LOOK_S)
    fail(f"{MODEL} did not get ready within {READY_S:.0f} s.", "holdfast doctor; holdfast logs hostagent")


def _balance() -> Balance:
    async def look(database: Database) -> Balance:
        async with database.read() as reader:
            return await ledger.balance(reader, demo_account.ACCOUNT)

    return patiently(lambda: with_database(look))


def _create(client: httpx.Client, picture: Path, scale: int, mode: str) -> dict[str, Any]:
    mime = mimetypes.guess_type(picture.name)[0] or "image/png"
    operation_id = f"demo-{uuid.uuid4()}"  # one for all tries: whatever became of an earlier one, it is paid once

    def create() -> dict[str, Any]:
        with picture.open("rb") as file:
            return good(
                client.post(
                    f"{SURFACE}/images/edits/tasks",
                    headers={"X-IC-Operation-ID": operation_id, "X-IC-Allow-Duplicate": "true"},
                    data={"model": MODEL, "scale": str(scale), "mode": mode},
                    files={"image": (picture.name, file, mime)},
                )
            )

    return patiently(create)


def _look(client: httpx.Client, task_id: str) -> dict[str, Any]:
    return patiently(lambda: good(client.post(f"{SURFACE}/images/tasks/{task_id}", json={})))


def _follow(client: httpx.Client, task_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + RUN_S
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=steps, transient=True) as bar:
        shown = bar.add_task("waiting", total=1.0)
        while time.monotonic() < deadline:
            task = _look(client, task_id)
            bar.update(shown, description=str(task["phase"]), completed=float(task.get("progress") or 0.0))
            if task["status"] != "pending":
                return task
            time.sleep(_LOOK_S)
    return fail(f"{task_id} did not end within {RUN_S:.0f} s.", "It goes on; see the Temporal UI.")


def _download(client: httpx.Client, task_id: str, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)

    def fetch() -> str:
        digest = hashlib.sha256()
        with client.stream("GET", f"{SURFACE}/images/tasks/{task_id}/content", params={"index": 0}) as answer:
            if answer.is_error:
                answer.read()
                good(answer)
            with target.open("wb") as file:
                for piece in answer.iter_bytes():
                    digest.update(piece)
                    file.write(piece)
        if answer.headers["etag"].strip('"') != digest.hexdigest():
            fail("The result arrived damaged.", "Run the demo again.")
        return digest.hexdigest()

    return patiently(fetch)


def _document(
    picture: Path,
    target: Path,
    digest: str,
    ended: dict[str, Any],
    before: Balance,
    after: Balance,
    seconds: float,
) -> dict[str, Any]:
    with Image.open(picture) as source, Image.open(target) as result:
        source_size, result_size = source.size, result.size
    return {
        "task_id": ended["id"],
        "credit_status": ended["credits"]["status"],
        "balance_before": before.available,
        "balance_after": after.available,
        "input": {"width": source_size[0], "height": source_size[1]},
        "output": {"path": str(target), "width": result_size[0], "height": result_size[1], "sha256": digest},
        "seconds": round(seconds, 2),
    }


def _tell(document: dict[str, Any]) -> None:
    source, result = document["input"], document["output"]
    paid = document["balance_before"] - document["balance_after"]
    results.print(f"settled  {paid} credits, {document['balance_after']} available ({document['credit_status']})")
    size = f"{source['width']} x {source['height']} → {result['width']} x {result['height']}"
    results.print(f"picture  {size} in {document['seconds']} s")
    results.print(f"         {result['path']}")
    results.print(f"         sha256 {result['sha256']}")
    results.print(f"workflow {document['workflow_url']}\n")
