"""Nobody commits but the transaction's one owner.

Reason: a leaf that commits makes the operation around it two operations, and a crash between them leaves
a hold without a generation, or an event without its posting. `infra/db` commits at the end of
`transaction()`. The host's journal is a SQLite file of its own with exactly one writer, which owns it.
"""

import ast
from collections.abc import Iterator

from tests.house.sources import Breach, Module, listed, product, sample

OWNERS = ("infra/db/", "infra/hosts/journal.py")
_ENDINGS = frozenset(("commit", "rollback"))


def endings(module: Module) -> Iterator[Breach]:
    """Every call of `.commit()` or `.rollback()` outside the owners."""
    if module.where.startswith(OWNERS):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ENDINGS:
            yield module.breach(node, f"calls .{node.func.attr}(): `Database.transaction()` ends transactions")


def test_only_owners_end_transactions() -> None:
    assert listed(breach for module in product() for breach in endings(module)) == []


def test_a_commit_in_a_leaf_is_caught_and_the_owners_is_not() -> None:
    text = "async def settle(tx):\n    await tx.connection.commit()\n"
    assert list(endings(sample(text, "infra/ledger/sample.py")))
    assert not list(endings(sample(text, "infra/db/database.py")))
