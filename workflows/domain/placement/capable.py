"""Whether any card that is known could ever serve a kind of work, whatever those cards do now."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """Equal cards of one host.

    Attributes:
        host: Where they are; a gang's cards share it.
        engines: Engine kinds that were up at the last report; none while its engine is down.
        capabilities: What those offered.
        total_mib: Memory of each.
        count: How many.
    """

    host: str
    engines: frozenset[str]
    capabilities: frozenset[str]
    total_mib: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Need:
    """What a model asks of its cards: `cards` of one host, with `mib` each, budget and reserve together."""

    engine: str
    capability: str
    mib: int
    cards: int = 1


def lacking(known: Iterable[Known], need: Need) -> str | None:
    """What the whole fleet lacks, in words; None when it could serve, or when no card is known at all.

    A card whose engine is down at the moment offers nothing that could be judged: only its memory is.
    """
    fleet = tuple(known)
    if not fleet:
        return None
    left = [one for one in fleet if not one.engines or need.engine in one.engines]
    if not left:
        return f"no card has a {need.engine} engine"
    left = [one for one in left if not one.engines or need.capability in one.capabilities]
    if not left:
        return f"no card offers {need.capability}"
    largest = max(one.total_mib for one in left)
    if largest < need.mib:
        return f"{need.mib} MiB are needed, and the largest such card has {largest}"
    together: Counter[str] = Counter()
    for one in left:
        together[one.host] += one.count if one.total_mib >= need.mib else 0
    most = max(together.values())
    if most < need.cards:
        return f"{need.cards} such cards of one host are needed, and the most together are {most}"
    return None
