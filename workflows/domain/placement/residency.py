"""What has to be loaded and evicted before work can run on a card, and what that costs."""

from dataclasses import dataclass

from workflows.domain.placement.fleet import Card, Resident, Work


@dataclass(frozen=True, slots=True)
class Loading:
    """How a card would be made ready.

    Attributes:
        load: What is brought in, in order.
        evict: What makes room, in order.
        seconds: Loading and stopping, in all.
        after: What is resident once the work ran, in the order of use.
    """

    load: tuple[Resident, ...]
    evict: tuple[Resident, ...]
    seconds: float
    after: tuple[Resident, ...]


def unfit(card: Card, work: Work) -> str | None:
    """Why the card can never take this work as it is, free or not; None when it could."""
    if work.capability not in card.capabilities:
        return f"no {work.capability}"
    if work.engine not in card.engines:
        return f"no {work.engine} engine"
    needed = work.budget_mib + work.reserve_mib
    room = evictable_room(card, work)
    if room < needed:
        taken = card.total_mib - room
        beside = f" ({taken} MiB can't be freed)" if taken else ""
        return f"{card.total_mib} MiB{beside} of {needed} MiB needed"
    return None


def evictable_room(card: Card, work: Work) -> int:
    """MiB that the work could have: all but foreign processes and pinned residents of others.

    Memory of the same model and of what may be evicted counts as available; otherwise a warm card could never
    take its own model's next task.
    """
    own = {resident.name for resident in work.residents}
    kept = sum(each.mib for each in card.residents if each.name in card.pinned and each.name not in own)
    return card.total_mib - card.foreign_mib - kept


def loading(card: Card, work: Work) -> Loading | None:
    """How the card would be made ready; None when its residents don't leave enough room however it is done.

    Room for the budget is made first, by evicting what the work doesn't need, cheapest to bring back first. Then
    its residents are brought in as they are used; where they don't all fit at once, what was used already makes
    room, and last what is used later.
    """
    table = _Table(card, work)
    for part in work.residents:
        if not table.use(part):
            return None
    return table.result()


class _Table:
    """A card's memory while it is being planned."""

    def __init__(self, card: Card, work: Work) -> None:
        self._work = work
        self._own = {part.name for part in work.residents}
        self._pinned = card.pinned
        self._present = {each.name: each for each in card.residents}
        self._free = card.total_mib - card.foreign_mib - sum(each.mib for each in card.residents)
        others = [each for each in card.residents if each.name not in self._own and each.name not in card.pinned]
        self._others = sorted(others, key=lambda each: (each.load_s + each.stop_s, each.name))
        self._used: list[Resident] = []
        self._load: list[Resident] = []
        self._evict: list[Resident] = []
        own_mib = sum(each.mib for each in card.residents if each.name in self._own)
        while self._free + own_mib < work.budget_mib + work.reserve_mib and self._others:
            self._remove(self._others.pop(0))

    def use(self, part: Resident) -> bool:
        """Have the part and the working memory in; False when there is no room for both."""
        missing = part.name not in self._present
        needed = part.working_mib + (part.mib if missing else 0)
        while self._free < needed:
            victim = self._victim(part)
            if victim is None:
                return False
            self._remove(victim)
        if missing:
            self._present[part.name] = part
            self._load.append(part)
            self._free -= part.mib
        self._used.append(part)
        return True

    def result(self) -> Loading:
        """The plan; what is resident afterwards is in the order of use."""
        stays = tuple(each for each in self._present.values() if each.name not in self._own)
        used = tuple(part for part in self._work.residents if part.name in self._present)
        seconds = sum(part.load_s for part in self._load) + sum(each.stop_s for each in self._evict)
        return Loading(tuple(self._load), tuple(self._evict), seconds, stays + used)

    def _victim(self, wanted: Resident) -> Resident | None:
        if self._others:
            return self._others.pop(0)
        for index, part in enumerate(self._used):
            if part.name not in self._pinned and part.name in self._present:
                return self._used.pop(index)
        for part in reversed(self._work.residents):  # it is brought in again when its turn comes
            if part is not wanted and part.name in self._present and part.name not in self._pinned:
                return part
        return None

    def _remove(self, victim: Resident) -> None:
        self._free += self._present.pop(victim.name).mib
        self._evict.append(victim)
