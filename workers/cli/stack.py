"""`holdfast up`, `down`, `status`, `logs`, `reset`."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from infra.local import secret
from infra.local.layout import Layout
from infra.local.stack import with_stack
from infra.settings import Settings
from workers import demo_account
from workers.cli.console import fail, progress, results, steps
from workers.supervisor import control
from workers.supervisor.state import StackState

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def up(
    *, detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running and return.")] = False
) -> None:
    """Start everything, or say where it runs already. Without --detach, Ctrl-C stops it again."""
    settings = Settings()
    ran_before = control.current(settings) is not None
    state = bring_up(settings)
    steps.print("Running already." if ran_before else f"Up, supervised by process {state.pid}.")
    print_addresses(settings)
    if detach or ran_before:
        return
    steps.print("\nCtrl-C stops everything.")
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    while not asked.wait(1.0):
        if control.current(settings) is None:
            fail("The supervisor ended.", f"See {Layout(settings.home).logs / 'supervisor.log'}")
    down()


def bring_up(settings: Settings) -> StackState:
    """Have the stack up, with progress; ends the command when it doesn't come."""
    with progress("Starting") as say:
        try:
            return control.start(settings, say)
        except control.StackFailedError as error:
            fail(str(error), "Then: holdfast doctor")


def down() -> None:
    """Stop everything. Data stay; the next `up` goes on where this ended."""
    settings = Settings()
    with progress("Stopping") as say:
        try:
            stopped = control.stop(settings, say)
        except control.StackFailedError as error:
            fail(str(error), "End that process by hand, then run `holdfast down` again.")
    steps.print("Stopped." if stopped else "Nothing was running.")


def status(*, as_json: AsJson = False) -> None:
    """What runs, where, and since when. Ends with 1 unless everything is up."""
    settings = Settings()
    state = control.current(settings)
    document = _status_document(settings, state)
    if as_json:
        sys.stdout.write(json.dumps(document) + "\n")
    elif state is None:
        steps.print("Not running. Start it: holdfast up --detach")
    else:
        table = Table("part", "", "process", "restarts", "note", title=state.step)
        for part in state.parts:
            colour = "green" if part.condition == "up" else "yellow"
            table.add_row(
                part.name, f"[{colour}]{part.condition}[/]", str(part.pid or ""), str(part.restarts), part.note
            )
        results.print(table)
        print_addresses(settings)
    raise typer.Exit(0 if document["ready"] else 1)


def logs(
    part: Annotated[str, typer.Argument(help="As `api`; all parts when left out.")] = "",
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1)] = 50,
) -> None:
    """Show the logs of one part or of all."""
    folder = Layout(Settings().home).logs
    files = sorted(folder.glob(f"{part or '*'}.log"))
    if not files:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.log"))) or "none yet"
        fail(f"No log of `{part}` in {folder}.", f"There are: {known}")
    command = ["tail", "-n", str(lines), *(["-F"] if follow else []), *map(str, files)]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def reset(*, yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False) -> None:
    """Stop everything and delete all data of this stack."""
    settings = Settings()
    layout = Layout(settings.home)
    if strangers := layout.strangers():
        fail(
            f"{layout.home} holds what no stack made, as {strangers[0]}. Nothing was deleted.",
            "Does HOLDFAST_HOME name the right folder? Else move those things away first.",
        )
    if not yes:
        typer.confirm(f"Delete all data under {layout.home}, for good?", abort=True)
    down()
    for folder in layout.places:
        if folder.exists():
            shutil.rmtree(folder)
    steps.print("Deleted.")


def addresses(settings: Settings) -> dict[str, str]:
    """Where to look, by name."""
    full = with_stack(settings)
    found = {"api": full.public_url, "models": f"{full.public_url}/api/proxy/v1/models"}
    if full.temporal_ui_url:
        found["temporal_ui"] = f"{full.temporal_ui_url}/namespaces/holdfast/workflows"
    return found | {"temporal": full.temporal_address or "", "home": str(full.home)}


def print_addresses(settings: Settings) -> None:
    """Addresses, the demo account, and calls that work as printed."""
    found = addresses(settings)
    results.print(f"  API            {found['api']}")
    if "temporal_ui" in found:
        results.print(f"  Temporal UI    {found['temporal_ui']}")
    results.print(f"  Temporal       {found['temporal']}")
    results.print(f"  Data and logs  {found['home']}")
    password = secret.ensure(Layout(settings.home).secrets)["demo_password"]
    results.print(f"  Demo account   {demo_account.EMAIL}  {password}")
    results.print("\nTry it:")
    for line in curl_lines(found["api"], password):
        results.print(f"  {line}", markup=False)


def curl_lines(api: str, password: str) -> list[str]:
    """Log in, create, query, fetch: they work as printed, in this order. `picture.png` is the caller's own."""
    surface = f"{api}/api/proxy/v1"
    login = f'{{"email":"{demo_account.EMAIL}","password":"{password}"}}'
    return [
        f"curl -s -c cookies -H 'Content-Type: application/json' -d '{login}' {api}/api/auth/login",
        (
            'curl -s -b cookies -H "X-IC-Operation-ID: first-$(date +%s)" -F model=image-upscale -F scale=2 '
            f"-F 'image=@picture.png;type=image/png' {surface}/images/edits/tasks | tee task.json"
        ),
        """TASK_ID=$(sed -n 's/.*"id":"\\([^"]*\\)".*/\\1/p' task.json)""",
        f"curl -s -b cookies -X POST {surface}/images/tasks/$TASK_ID",
        # 409 until the task is finished, which curl repeats with --retry-all-errors.
        (
            "curl -s -b cookies --fail --retry 60 --retry-delay 1 --retry-all-errors -o result.png "
            f"{surface}/images/tasks/$TASK_ID/content"
        ),
    ]


def _status_document(settings: Settings, state: StackState | None) -> dict[str, Any]:
    if state is None:
        return {"running": False, "ready": False, "parts": [], "addresses": {}}
    every_part_up = all(part.condition == "up" for part in state.parts)
    return {
        "running": True,
        "ready": state.ready and every_part_up,
        "step": state.step,
        "pid": state.pid,
        "parts": [asdict(part) for part in state.parts],
        "addresses": addresses(settings),
    }
