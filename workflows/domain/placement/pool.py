"""The decision: which waiting generation gets which cards. Incremental; the placer and the simulator run it.

Work is grouped into lines (equal needs) and cards into groups (equal abilities and contents), so that a decision
looks at some tens of each, whatever waits. A pair of line and group has a price: the rank of the line's first,
plus what loading weighs. The lowest price goes first.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from workflows.domain.placement.fleet import Card, Given, Policy, Share, Standing, Waiting
from workflows.domain.placement.groups import GroupKey, Groups
from workflows.domain.placement.line import Account, Line, slack, turn
from workflows.domain.placement.residency import Loading

LAST_CHOICE_S = 60.0
"""A card that a ticket came back from weighs as much as this many seconds of waiting."""

_Price = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Ticket:
    """Somebody who waits, with the rank that he has from the start."""

    waiting: Waiting
    rank: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """Cards of one host kept for a gang.

    Attributes:
        task_id: The gang's ticket.
        cards: Which are kept.
        at: When the last of them is expected to be free.
    """

    task_id: str
    cards: frozenset[str]
    at: float


class Pool:
    """All cards and all who wait, kept up to date by events."""

    def __init__(self, policy: Policy | None = None) -> None:
        """An empty fleet."""
        self.policy = policy or Policy()
        self.fleet = Groups()
        self.tickets: dict[str, Ticket] = {}
        self.lines: dict[str, Line] = {}
        self.accounts: dict[str, Account] = {}
        self.reservation: Reservation | None = None
        self._elsewhere: dict[str, tuple[float, int]] = {}
        self._active_weight = 0.0

    @property
    def cards(self) -> dict[str, Card]:
        """All cards by uuid."""
        return self.fleet.cards

    def put_card(self, card: Card) -> None:
        """A card is new, or is said to be otherwise than before."""
        self.fleet.put(card)

    def drop_card(self, uuid: str) -> None:
        """A card is gone."""
        self.fleet.drop(uuid)

    def put_ticket(self, waiting: Waiting) -> None:
        """Somebody begins to wait; harmless when he waits already."""
        if waiting.task_id in self.tickets:
            return
        account = self.account(waiting.account_id)
        cards = max(self.fleet.able(waiting.work), 1) * self._part(account)
        rank = turn(account, waiting, cards=cards) + slack(self.policy, waiting.work)
        before = account.active
        account.waits(waiting.work)
        self._weigh(account, before=before)
        line = self.lines.setdefault(waiting.work.key, Line(waiting.work))
        line.push(waiting.account_id, rank, waiting.task_id)
        self.tickets[waiting.task_id] = Ticket(waiting, rank)

    def drop_ticket(self, task_id: str) -> None:
        """Somebody waits no more: canceled, expired, or placed by somebody else."""
        ticket = self.tickets.pop(task_id, None)
        if ticket is None:
            return
        line = self.lines[ticket.waiting.work.key]
        line.remove(ticket.waiting.account_id, task_id)
        self._forget_empty(line)
        account = self.account(ticket.waiting.account_id)
        account.waits_no_more(ticket.waiting.work)
        self._weigh(account, before=True)

    def went_on_card(self, account_id: str) -> None:
        """One more of the account's generations is on a card, given by somebody else than `decide`."""
        account = self.account(account_id)
        before = account.active
        account.on_cards += 1
        self._weigh(account, before=before)

    def left_card(self, account_id: str) -> None:
        """One of the account's generations is off its card."""
        account = self.account(account_id)
        if account.on_cards:
            account.on_cards -= 1
            self._weigh(account, before=True)
        if account.parked and not account.at_limit:
            for key in account.parked & self.lines.keys():
                self.lines[key].resume(account_id)
            account.parked.clear()

    def account(self, account_id: str) -> Account:
        """An account's standing; a new one has the policy's share."""
        account = self.accounts.get(account_id)
        if account is None:
            account = Account(self.policy.shares.get(account_id, Share()))
            self.accounts[account_id] = account
        return account

    def order(self, first: int) -> Iterator[Waiting]:
        """The first of those who wait, by rank."""
        tickets = self.tickets.values()
        for ticket in heapq.nsmallest(first, tickets, key=lambda each: (each.rank, each.waiting.task_id)):
            yield ticket.waiting

    def decide(self, now: float) -> list[Given]:
        """Give free cards to those who wait, until nothing fits any more. What is given counts as busy from here.

        Args:
            now: The moment; compared with the cards' reports and expected ends.
        """
        self.reservation = None
        self._elsewhere.clear()
        given: list[Given] = []
        pairs = [(line, group) for group in self.fleet.with_free() for line in self.lines]
        prices = [
            (price, line, group) for line, group in pairs if (price := self._price(line, group, now)) is not None
        ]
        heapq.heapify(prices)
        while prices:
            price, line, group = heapq.heappop(prices)
            current = self._price(line, group, now)
            if current is not None and current > price:
                heapq.heappush(prices, (current, line, group))  # its first went elsewhere; the next costs more
            elif current is not None and (one := self._try(line, group, now)) is not None:
                given.append(one)
                if (next_price := self._price(line, group, now)) is not None:
                    heapq.heappush(prices, (next_price, line, group))
        return given

    def _price(self, line_key: str, group_key: GroupKey, now: float) -> _Price | None:
        """What giving a card of this group to the line's first costs; None when that isn't to be done now."""
        line, group = self.lines.get(line_key), self.fleet.groups.get(group_key)
        if line is None or group is None or not group.free:
            return None
        plan = self.fleet.plan(group.sample, line.work)
        head = None if isinstance(plan, str) else self._head(line)
        if isinstance(plan, str) or head is None:
            return None
        if plan.seconds > 0 and self._sooner_elsewhere(line, plan, now):
            return None
        rank, task_id, _ = head
        price = rank + self.policy.reload_weight * (plan.seconds + self._loss(plan))
        came_back_from = self.tickets[task_id].waiting.came_back_from
        if came_back_from and all(uuid in came_back_from for uuid in group.free):
            price += LAST_CHOICE_S
        # Of equal prices the smallest card is taken, so that large ones stay for who needs them.
        return price, f"{group.sample.total_mib:012d}{task_id}"

    def _head(self, line: Line) -> tuple[float, str, str] | None:
        """The line's first whose account may have one more on cards."""
        while (head := line.head()) is not None:
            account = self.account(head[2])
            if not account.at_limit:
                return head
            account.parked.add(line.work.key)
            line.park()
        return None

    def _sooner_elsewhere(self, line: Line, plan: Loading, now: float) -> bool:
        """Whether the line drains on busy cards that are warm before one more would be loaded."""
        key = line.work.key
        if key not in self._elsewhere:
            self._elsewhere[key] = self.fleet.warm_and_busy(line.work)
        soonest, warm = self._elsewhere[key]
        if not warm:
            return False
        return max(soonest - now, 0.0) + (line.length - 1) / warm * line.work.run_s < plan.seconds

    def _loss(self, plan: Loading) -> float:
        """Seconds of loading that others will have to pay for what is evicted."""
        loss = 0.0
        for resident in plan.evict:
            warm = self.fleet.warm(resident.name)
            if warm <= self.policy.warm_min.get(resident.name, 0) or (warm <= 1 and self._wanted(resident.name)):
                loss += resident.load_s
        return loss

    def _wanted(self, name: str) -> bool:
        return any(any(part.name == name for part in line.work.residents) for line in self.lines.values())

    def _try(self, line_key: str, group_key: GroupKey, now: float) -> Given | None:
        """Give the line's first a card of the group; None when none of it may be given after all."""
        head = self.lines[line_key].head()
        if head is None:
            raise AssertionError(f"line {line_key} has a price and nobody in it")
        waiting = self.tickets[head[1]].waiting
        if waiting.work.cards > 1:
            cards = self._gang(waiting, now)
        else:
            cards = self._one(waiting, self.fleet.groups[group_key].free, now)
        return self._give(waiting, cards, now) if cards else None

    def _one(self, waiting: Waiting, free: Iterable[str], now: float) -> tuple[str, ...]:
        usable = sorted(free, key=lambda uuid: uuid in waiting.came_back_from) if waiting.came_back_from else free
        for uuid in usable:
            if self._reports(self.cards[uuid], now) and self._may_use(uuid, waiting, now):
                return (uuid,)
        return ()

    def _may_use(self, uuid: str, waiting: Waiting, now: float) -> bool:
        """A card kept for a gang may be used by work that is over before the gang can begin."""
        kept = self.reservation
        if kept is None or uuid not in kept.cards:
            return True
        plan = self.fleet.plan(self.cards[uuid], waiting.work)
        return not isinstance(plan, str) and now + plan.seconds + waiting.work.run_s <= kept.at

    def _gang(self, waiting: Waiting, now: float) -> tuple[str, ...]:
        """Free cards of one host for a gang.

        Where there aren't enough, those of the host that has them first are kept, so that small work can't
        starve it.
        """
        if self.reservation is not None:
            return ()  # one gang is gathered at a time
        hosts: dict[str, list[tuple[float, str]]] = {}
        for card in self.cards.values():
            if card.standing is Standing.OPEN and self._reports(card, now):
                if isinstance(self.fleet.plan(card, waiting.work), str):
                    continue
                ready = now if card.busy_until is None else max(card.busy_until, now)
                hosts.setdefault(card.host, []).append((ready, card.uuid))
        able = [
            sorted(cards)[: waiting.work.cards] for cards in hosts.values() if len(cards) >= waiting.work.cards
        ]
        if not able:
            return ()
        chosen = min(able, key=lambda cards: cards[-1])
        uuids = tuple(uuid for _, uuid in chosen)
        if all(self.cards[uuid].busy_until is None for uuid in uuids):
            return uuids
        self.reservation = Reservation(waiting.task_id, frozenset(uuids), chosen[-1][0])
        return ()

    def _reports(self, card: Card, now: float) -> bool:
        return now - card.reported_at <= self.policy.fresh_s

    def _give(self, waiting: Waiting, cards: tuple[str, ...], now: float) -> Given:
        del self.tickets[waiting.task_id]
        line = self.lines[waiting.work.key]
        line.pop()
        self._forget_empty(line)
        account = self.account(waiting.account_id)
        account.waits_no_more(waiting.work)
        account.on_cards += 1
        self._elsewhere.pop(waiting.work.key, None)
        expected_s = 0.0
        for uuid in cards:
            card = self.cards[uuid]
            plan = self.fleet.plan(card, waiting.work)
            assert not isinstance(plan, str), plan  # noqa: S101 - a pair without a plan has no price
            expected_s = max(expected_s, plan.seconds + waiting.work.run_s)
            self.put_card(replace(card, residents=plan.after, busy_until=now + expected_s))
        return Given(waiting.task_id, cards, waiting.account_id, expected_s)

    def _part(self, account: Account) -> float:
        """The account's part of the fleet beside everybody who wants or has some of it."""
        weight = account.share.weight
        return weight / (self._active_weight + (0.0 if account.active else weight))

    def _weigh(self, account: Account, *, before: bool) -> None:
        """Keep the weight of all who are active, after a change of an account that was active or not before."""
        if account.active != before:
            self._active_weight += account.share.weight if account.active else -account.share.weight

    def _forget_empty(self, line: Line) -> None:
        if line.length == 0:
            del self.lines[line.work.key]


def decide(
    now: float, cards: Iterable[Card], waiting: Iterable[Waiting], policy: Policy | None = None
) -> list[Given]:
    """One decision from nothing: that of a pool to which all this happened, in the order of waiting."""
    pool = Pool(policy)
    for card in cards:
        pool.put_card(card)
    for each in sorted(waiting, key=lambda one: (one.enqueued_at, one.task_id)):
        pool.put_ticket(each)
    return pool.decide(now)
