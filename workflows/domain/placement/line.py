"""The order of those who wait: by one number each, its rank, fixed when it begins to wait.

rank = when its turn is + how much its class and its length let others go first. Both parts are bounded but for
an account's own backlog, so nobody who comes later than a bound after it can ever go before it.
"""

import heapq
import math
from dataclasses import dataclass, field

from workflows.domain.placement.fleet import Policy, Share, Waiting, Work

LENGTHS = 16
"""Lengths of work are told apart by powers of two: up to 1 s, 2 s, 4 s, … 9 h."""


@dataclass(slots=True)
class Account:
    """One account's standing.

    Attributes:
        share: What it may have.
        waiting: Its tickets.
        on_cards: Its generations on cards now.
        waiting_s: Card seconds that its tickets are expected to take, by the length of one (`_length`).
        parked: Keys of lines whose head is this account's and waits until it is below its limit.
    """

    share: Share
    waiting: int = 0
    on_cards: int = 0
    waiting_s: list[float] = field(default_factory=lambda: [0.0] * LENGTHS)
    parked: set[str] = field(default_factory=set)

    @property
    def active(self) -> bool:
        """Whether it wants or has anything of the fleet."""
        return self.waiting > 0 or self.on_cards > 0

    @property
    def at_limit(self) -> bool:
        """Whether no more of it may go on cards."""
        return self.share.in_flight_max is not None and self.on_cards >= self.share.in_flight_max

    def waits(self, work: Work) -> None:
        """One more ticket."""
        self.waiting += 1
        self.waiting_s[_length(work)] += work.run_s * work.cards

    def waits_no_more(self, work: Work) -> None:
        """One ticket less."""
        self.waiting -= 1
        length = _length(work)
        # Sums of floats don't come back to 0 by themselves.
        self.waiting_s[length] = (
            max(self.waiting_s[length] - work.run_s * work.cards, 0.0) if self.waiting else 0.0
        )


def slack(policy: Policy, work: Work) -> float:
    """Seconds by which others may come later and still go first: short work has little, long work has more."""
    return policy.head_start_s[work.priority] + min(policy.patience * work.run_s, policy.patience_s_max)


def turn(account: Account, ticket: Waiting, *, cards: float) -> float:
    """When the ticket's turn is: when all that its account has waiting would be done at the account's share.

    So an account's hundredth ticket has its turn after ninety-nine, and another's first comes before it. Longer
    work of its own doesn't count: the account's short work needn't wait for its long work.

    Args:
        account: Who asks.
        ticket: Its ticket. One that came back from a card keeps its place.
        cards: The account's share of the cards that could do this work, as a number of cards.
    """
    if ticket.came_back_from:
        return ticket.enqueued_at
    return ticket.enqueued_at + sum(account.waiting_s[: _length(ticket.work) + 1]) / cards


def _length(work: Work) -> int:
    return min(max(math.ceil(work.run_s), 1).bit_length(), LENGTHS) - 1


class Line:
    """Everybody who waits with the same needs: a heap of accounts, each a heap of its tickets by rank."""

    def __init__(self, work: Work) -> None:
        """Nobody waits yet."""
        self.work = work
        self.length = 0
        self._heads: list[tuple[float, str, str]] = []
        self._tickets: dict[str, list[tuple[float, str]]] = {}
        self._gone: set[str] = set()

    def push(self, account_id: str, rank: float, task_id: str) -> None:
        """Add a ticket."""
        queue = self._tickets.setdefault(account_id, [])
        heapq.heappush(queue, (rank, task_id))
        self.length += 1
        if queue[0][1] == task_id:
            heapq.heappush(self._heads, (rank, task_id, account_id))

    def head(self) -> tuple[float, str, str] | None:
        """The first: rank, task and account. Entries of tickets that are no head any more are dropped here."""
        heads = self._heads
        while heads:
            rank, task_id, account_id = heads[0]
            queue = self._tickets.get(account_id)
            if queue and queue[0] == (rank, task_id):
                return heads[0]
            heapq.heappop(heads)
        return None

    def pop(self) -> None:
        """Take the first out; its account's next becomes a head."""
        _, _, account_id = heapq.heappop(self._heads)
        queue = self._tickets[account_id]
        heapq.heappop(queue)
        self.length -= 1
        self._next_head(account_id)

    def park(self) -> None:
        """Leave the first account out until `resume`; its tickets stay."""
        heapq.heappop(self._heads)

    def resume(self, account_id: str) -> None:
        """Let an account in again."""
        self._next_head(account_id)

    def remove(self, account_id: str, task_id: str) -> None:
        """Take any ticket out. It is forgotten when it comes to the front; until then it costs its memory only."""
        self._gone.add(task_id)
        self.length -= 1
        if self._tickets[account_id][0][1] == task_id:
            self._next_head(account_id)

    def _next_head(self, account_id: str) -> None:
        queue = self._tickets.get(account_id, [])
        while queue and queue[0][1] in self._gone:
            self._gone.discard(heapq.heappop(queue)[1])
        if queue:
            rank, task_id = queue[0]
            heapq.heappush(self._heads, (rank, task_id, account_id))
        else:
            self._tickets.pop(account_id, None)
