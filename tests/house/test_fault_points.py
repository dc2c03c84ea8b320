"""Every fault point is drilled, and every drilled point is in the code.

Reason: a point that nobody arms is noise in a money step, and a drill of a point that was renamed passes
without having killed anything.
"""

import ast
from collections.abc import Iterator

from tests.house.sources import Module, product, resolved, sample
from workers.drill.cases import POINTS


def points(module: Module) -> Iterator[str]:
    """The names of the fault points that a module passes."""
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and resolved(module, node.func) == "infra.faults.point"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def test_points_in_the_code_are_those_that_are_drilled() -> None:
    there = [point for module in product() for point in points(module)]
    assert sorted(set(there)) == sorted(POINTS)


def test_a_point_is_seen_however_it_is_imported() -> None:
    assert list(points(sample("from infra import faults\nfaults.point('a.b')\n"))) == ["a.b"]
    assert list(points(sample("from infra.faults import point as die\ndie('c.d')\n"))) == ["c.d"]
