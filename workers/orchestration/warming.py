"""How warm the fleet is, and should be: by manifests, and by what came in the last minutes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra import leases, metrics
from infra.catalog import Catalog
from infra.db import Reader
from infra.leases import HALF_S, RunTime
from workflows.domain.placement.fleet import Card
from workflows.domain.placement.warmth import Arrivals, Target, able, cards_wanted, warm
from workflows.domain.plan import work_of


@dataclass(frozen=True, slots=True)
class Warmth:
    """Cards that report, and on how many of them each model that loads anything is to be loaded."""

    cards: tuple[Card, ...] = ()
    targets: tuple[Target, ...] = ()


async def look(reader: Reader, models: Catalog) -> Warmth:
    """Read it; without a model that loads anything nothing is read."""
    works = {entry.manifest.id: work_of(entry.manifest) for entry in models.entries.values()}
    works = {model_id: work for model_id, work in works.items() if work.residents}
    if not works:
        return Warmth()
    cards = tuple(row.card for row in await leases.cards(reader) if not row.silent)
    arrivals = await leases.arrivals(reader)
    learned = _learned(await leases.run_times(reader))
    targets = tuple(
        Target(
            model_id,
            work,
            cards_wanted(
                arrivals.get(model_id, Arrivals()),
                half_s=HALF_S,
                run_s=learned.get(model_id, work.run_s),
                least=models.entries[model_id].manifest.warm_min,
                most=len(able(cards, work)),
            ),
        )
        for model_id, work in works.items()
    )
    return Warmth(cards, targets)


def kept(warmth: Warmth) -> dict[str, int]:
    """By resident: cards on which placement doesn't unload it lightly."""
    found: dict[str, int] = {}
    for target in warmth.targets:
        for part in target.work.residents:
            found[part.name] = max(found.get(part.name, 0), target.wanted)
    return found


def show(warmth: Warmth) -> None:
    """Tell it to whoever reads metrics."""
    values: list[tuple[Mapping[str, str], float]] = []
    for target in warmth.targets:
        values.append(({"model": target.model_id, "kind": "wanted"}, target.wanted))
        values.append(({"model": target.model_id, "kind": "warm"}, len(warm(warmth.cards, target.work))))
    metrics.show("cards_warm", values)


def _learned(run_times: Sequence[RunTime]) -> dict[str, float]:
    """Seconds of a warm run, by model, over all its modes and sizes by how often they ran."""
    seconds: dict[str, float] = {}
    runs: dict[str, int] = {}
    for each in run_times:
        if each.warm:
            seconds[each.model_id] = seconds.get(each.model_id, 0.0) + each.mean_s * each.runs
            runs[each.model_id] = runs.get(each.model_id, 0) + each.runs
    return {model_id: seconds[model_id] / count for model_id, count in runs.items() if count}
