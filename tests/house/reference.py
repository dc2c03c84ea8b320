"""The pages of `docs/reference` that are made from the code. `python -m tests.house.refresh` writes them."""

import inspect
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from infra.metrics import METRICS, PORTS, PREFIX, Sort
from infra.settings import PROJECT, Settings
from tests.house.sources import ROOT
from workflows.contracts.failures import VERDICTS, Code

_MADE = "<!-- Made by `python -m tests.house.refresh`; change the code and run it again. -->\n"
_ATTRIBUTE = re.compile(r"^    (\w+): (.+?)(?=^    \w+: |\Z)", re.MULTILINE | re.DOTALL)


def documented_settings() -> dict[str, str]:
    """Each setting's sentence, from the docstring of `Settings`."""
    docstring = inspect.getdoc(Settings) or ""
    _, _, attributes = docstring.partition("Attributes:\n")
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}


def _type(annotation: Any) -> str:
    text = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    text = re.sub(r"(?:\w+\.)+(\w+)", r"\1", text)
    return text.replace("SecretStr", "secret").replace(" | None", "").replace("str", "text")


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value == "":
        return "none"
    if isinstance(value, Path):
        return f"`{value.relative_to(PROJECT)}` in the checkout"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`"


def _bounds(field: FieldInfo) -> str:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    found = [
        f"{word} {getattr(item, name)}"
        for item in field.metadata
        for name, word in words.items()
        if getattr(item, name, None) is not None
    ]
    return f" ({', '.join(found)})" if found else ""


def settings_page() -> str:
    """`settings.md`: every setting with its type, default and sentence."""
    sentences = documented_settings()
    rows = "".join(
        f"| `HOLDFAST_{name.upper()}` | {_type(field.annotation)}{_bounds(field)} | {_default(field)} |"
        f" {sentences.get(name, '')} |\n"
        for name, field in Settings.model_fields.items()
    )
    return (
        f"{_MADE}# Settings\n\n"
        "All settings are environment variables; `infra/settings.py` is the only place that reads them. A value\n"
        "that doesn't fit its type or bounds stops the process at once, with the name of the setting.\n\n"
        "`holdfast up` sets what the parts that it starts need; for those, set only what you want otherwise.\n\n"
        f"| name | type | default | what it is |\n|---|---|---|---|\n{rows}"
    )


def errors_page() -> str:
    """`errors.md`: every code with its status and what to do about it."""
    rows = "".join(
        f"| `{code.value}` | {verdict.http_status} {HTTPStatus(verdict.http_status).phrase} |"
        f" {'yes' if verdict.retryable else 'no'} | {verdict.severity.value} | {verdict.meaning} |\n"
        for code, verdict in ((code, VERDICTS[code]) for code in Code)
    )
    return (
        f"{_MADE}# Error codes\n\n"
        "Every error of the HTTP surfaces has one shape:\n\n"
        "```json\n"
        '{"error": {"code": "…", "message": "…", "param": "…", "operation_id": "…", "task_id": "…",\n'
        '           "retryable": false}}\n'
        "```\n\n"
        "`code` is stable: it is never renamed and never reused. *Retry* says whether the same request, with the\n"
        "same operation id, may succeed later; repeating it never makes a second task. *Whose* says whom it\n"
        "concerns: the caller, the platform, or an operator who has to look. A failed generation has the same\n"
        "codes.\n\n"
        f"| code | status | retry | whose | meaning |\n|---|---|---|---|---|\n{rows}"
    )


def metrics_page() -> str:
    """`metrics.md`: every metric with what it counts, and who answers it."""
    rows = "".join(
        f"| `{PREFIX}{name}{'_total' if metric.sort is Sort.COUNTER else ''}` | {metric.sort.value} |"
        f" {', '.join(f'`{label}`' for label in metric.labels)} | {metric.process} | {metric.meaning} |\n"
        for name, metric in METRICS.items()
    )
    ports = "\n".join(f"- `workers.{process}`: the port plus {place}" for place, process in enumerate(PORTS))
    return (
        f"{_MADE}# Metrics\n\n"
        "With `HOLDFAST_METRICS_PORT` set, each process answers Prometheus at `/metrics` on a port of its own,\n"
        "at `HOLDFAST_METRICS_HOST`, which is this machine unless you say otherwise. Without it nothing is\n"
        "counted.\n\n"
        f"{ports}\n\n"
        "Gauges are read from the database by each orchestrator every 10 s: they are the whole platform's, so\n"
        "don't add them up. Counters and histograms are of one process since its start: add those up.\n\n"
        f"| name | sort | labels | process | what it says |\n|---|---|---|---|---|\n{rows}"
    )


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs/reference/settings.md": settings_page,
    ROOT / "docs/reference/errors.md": errors_page,
    ROOT / "docs/reference/metrics.md": metrics_page,
}
