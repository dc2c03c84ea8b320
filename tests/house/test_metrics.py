"""Every metric that is counted or shown stands in the table, and every one of the table is counted or shown.

Reason: an alert on a name that nobody writes any more never fires, and nobody notices. The reference page is made
from the table, see `test_reference`.
"""

import ast
from collections.abc import Iterator

from infra.metrics import METRICS, Sort
from tests.house.sources import ROOT, Module, product, resolved, sample
from workflows.contracts.sweep import Kind

_WRITERS = {
    "infra.metrics.count": Sort.COUNTER,
    "infra.metrics.show": Sort.GAUGE,
    "infra.metrics.observe": Sort.HISTOGRAM,
}


def written(module: Module) -> Iterator[tuple[str, Sort, bool]]:
    """Name and sort of each metric that a module writes, and whether the name stands there itself."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and resolved(module, node.func) in _WRITERS:
            first = node.args[0] if node.args else None
            name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
            yield name or "?", _WRITERS[resolved(module, node.func)], name is not None


def test_what_is_written_is_in_the_table_and_what_is_in_the_table_is_written() -> None:
    found = {one for module in product() for one in written(module)}
    assert found == {(name, metric.sort, True) for name, metric in METRICS.items()}


def test_every_metric_says_what_it_is() -> None:
    assert [name for name, metric in METRICS.items() if not metric.meaning.endswith(".")] == []


def test_every_kind_of_finding_is_in_the_operators_guide() -> None:
    guide = (ROOT / "docs/operate/operators.md").read_text()
    assert [kind.value for kind in Kind if f"| `{kind.value}` |" not in guide] == []


def test_each_way_to_write_is_caught() -> None:
    text = "from infra import metrics\nmetrics.count('a', code='x')\nmetrics.show(name, [])\n"
    assert list(written(sample(text))) == [("a", Sort.COUNTER, True), ("?", Sort.GAUGE, False)]
