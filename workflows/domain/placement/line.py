"""The order of those who wait: by one number each, its rank, fixed when it begins to wait.

rank = when its turn is + how much its class and its length let others go first. Both parts are bounded but for
an account's own backlog, so nobody who comes later than a bound after it can ever go before it.
"""

import heapq
from dataclasses import dataclass, field

from workflows.domain.placement.fleet import Policy, Share, Waiting, Work


@dataclass(slots=True)
class Account:
    """One account's standing.

    Attributes:
        share: What it may have.
        turn_at: When the turn of its next ticket is, had it the fleet for itself.
        on_cards: Its generations on cards now.
        parked: Keys of lines whose head is this account's and waits until it is below its limit.
    """

    share: Share
    turn_at: float = float("-inf")
    on_cards: int = 0
    parked: set[str] = field(default_factory=set)

    @property
    def at_limit(self) -> bool:
        """Whether no more of it may go on cards."""
        return self.share.in_flight_max is not None and self.on_cards >= self.share.in_flight_max


def slack(policy: Policy, work: Work) -> float:
    """Seconds by which others may come later and still go first: short work has little, long work has more."""
    return policy.head_start_s[work.priority] + min(policy.patience * work.run_s, policy.patience_s_max)


def take_turn(account: Account, ticket: Waiting, *, cards: int) -> float:
    """When the ticket's turn is, and the account's next turn moves on by the ticket's part of its share.

    An account's hundredth ticket has its turn when ninety-nine would be done, had the account the fleet for
    itself; so another's first ticket comes before it.

    Args:
        account: Who asks.
        ticket: Its ticket. One that came back from a card keeps its place.
        cards: How many cards of the fleet could do this work, at least 1.
    """
    if ticket.came_back_from:
        return ticket.enqueued_at
    turn = max(ticket.enqueued_at, account.turn_at)
    account.turn_at = turn + ticket.work.run_s * ticket.work.cards / (account.share.weight * cards)
    return turn


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
