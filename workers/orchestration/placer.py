"""The placer: gives free cards to waiting generations, by the pure decision that the simulator runs too."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import structlog

from infra import leases, metrics
from infra.catalog import Catalog
from infra.db import Database
from infra.db.clock import server_time
from infra.leases import CardRow, RunTimes, TicketRow, Told
from workers.orchestration.loop import Loop
from workers.orchestration.warming import kept, look
from workflows.domain.placement.fleet import Given, Policy, Standing
from workflows.domain.placement.forecast import forecast, why_not_yet
from workflows.domain.placement.pool import Pool

RESYNC_S = 30.0
"""All is read again this often, so that a notification that got lost delays nobody for longer."""
BEGUN_S_MAX = 15.0
"""A ticket is committed at most so long after its number was drawn: money steps have 5 s."""
TELL_EACH_S = 1.0
TOLD_MAX = 500
"""So many of the first are told their position and why they wait; a page shows no more."""

MANY = 500
"""With more waiting, a thought takes more than a millisecond."""
T = TypeVar("T")

log = structlog.get_logger(__name__)


class Placer(Loop):
    """One leader among all orchestrators. What it keeps in memory is read again when it begins to lead."""

    role = "placer"
    channel = leases.PLACE_CHANNEL

    def __init__(self, database: Database, models: Catalog | None = None) -> None:
        """Nothing is read yet. Of `models` those that are wanted warm aren't unloaded lightly."""
        super().__init__(database)
        self._models = models
        self._pool = Pool()
        self._run_times: RunTimes = {}
        self._pinned: dict[str, TicketRow] = {}
        self._on_card: dict[str, str] = {}
        self._numbers: deque[tuple[float, int]] = deque([(float("-inf"), 0)])
        self._read_at = float("-inf")
        self._told_at = float("-inf")
        self._told: dict[str, Told] = {}
        self._first_told: dict[str, tuple[float, float]] = {}

    def begin(self) -> None:
        """A new term: what was in memory may be long past."""
        self._read_at = float("-inf")

    async def turn(self) -> None:
        """Take lapsed offers back, take in what changed, decide, and offer; each offer is a compare-and-set."""
        async with self._database.single_statement() as tx:
            await leases.lapse(tx)
        async with self._database.read() as reader:
            now = (await server_time(reader)).timestamp()  # reports bear the database's time
        if "all" in self.heard or time.monotonic() - self._read_at >= RESYNC_S:
            await self._read_all()
        else:
            await self._read_changes()
        for task_id, ticket in list(self._pinned.items()):
            if ticket.only_card is not None:
                await self._offer(Given(task_id, (ticket.only_card,), "", ticket.waiting.work.run_s), now)
        await self._give(now)
        await self._tell(now)

    async def _give(self, now: float) -> None:
        """Offer what is decided. Where somebody was faster, as an admission, look again and decide anew."""
        while given := await self._think(lambda: self._pool.decide(now)):
            for one in given:
                self._on_card.update(dict.fromkeys(one.cards, one.account_id))
            failed = [one for one in given if not await self._offer(one, now)]
            if not failed:
                return
            await self._read(
                cards=[uuid for one in failed for uuid in one.cards], tasks=[one.task_id for one in failed]
            )

    async def _offer(self, given: Given, now: float) -> bool:
        async with self._database.single_statement() as tx:
            offered = await leases.offer(tx, given)
        if offered:
            self._pinned.pop(given.task_id, None)
            self._told.pop(given.task_id, None)
            first_told = self._first_told.pop(given.task_id, None)
            if first_told is not None:  # who was placed before anything was told got no estimate
                told_at, eta_s = first_told
                metrics.observe("eta_error_seconds", abs(now - told_at - eta_s))
            log.info("offered", task_id=given.task_id, cards=given.cards)
        return offered

    async def _read_all(self) -> None:
        async with self._database.read() as reader:
            learned = leases.warm_run_times(await leases.run_times(reader))
            shares = await leases.shares(reader)
            cards = await leases.cards(reader)
            tickets = await leases.tickets(reader, learned)
            warm_min = kept(await look(reader, self._models)) if self._models else {}
        self._pool = Pool(Policy(fresh_s=float("inf"), shares=shares, warm_min=warm_min))
        self._run_times = learned
        self._pinned.clear()
        self._on_card.clear()
        self._heard_before()
        for card in cards:
            self._put_card(card)
        self._numbers = deque([(float("-inf"), 0)])
        self._put_tickets(tickets)
        self._read_at = time.monotonic()

    async def _read_changes(self) -> None:
        heard = self._heard_before()
        cards = [name.removeprefix("card:") for name in heard if name.startswith("card:")]
        tasks = [name.removeprefix("ticket:") for name in heard if name.startswith("ticket:")]
        async with self._database.read() as reader:
            silent = await leases.silent_cards(reader)
            news = await leases.tickets(reader, self._run_times, after=self._surely_read())
        known = {uuid for uuid, card in self._pool.cards.items() if card.standing is Standing.OPEN}
        cards += [uuid for uuid in silent if uuid in known]
        if cards or tasks:
            await self._read(cards=cards, tasks=tasks)
        self._put_tickets(news)

    def _surely_read(self) -> int:
        """The number up to which every ticket was read: a lower one can't be committed any more."""
        while len(self._numbers) > 1 and time.monotonic() - self._numbers[1][0] > BEGUN_S_MAX:
            self._numbers.popleft()
        return self._numbers[0][1]

    def _put_tickets(self, tickets: tuple[TicketRow, ...]) -> None:
        for ticket in tickets:
            self._put_ticket(ticket)
        highest = max((ticket.seq for ticket in tickets), default=0)
        if highest > self._numbers[-1][1]:
            self._numbers.append((time.monotonic(), highest))

    async def _read(self, *, cards: list[str], tasks: list[str]) -> None:
        async with self._database.read() as reader:
            card_rows = await leases.cards(reader, cards)
            ticket_rows = await leases.tickets(reader, self._run_times, tasks)
        for card in card_rows:
            self._put_card(card)
        here = {ticket.waiting.task_id: ticket for ticket in ticket_rows}
        for task_id in tasks:
            self._pool.drop_ticket(task_id)
            self._pinned.pop(task_id, None)
            if task_id in here:
                self._put_ticket(here[task_id])

    def _put_card(self, row: CardRow) -> None:
        uuid = row.card.uuid
        before = self._on_card.pop(uuid, None)
        if before is not None and before != row.account_id:
            self._pool.left_card(before)
        if row.account_id is not None:
            if before != row.account_id:
                self._pool.went_on_card(row.account_id)
            self._on_card[uuid] = row.account_id
        if row.silent:
            self._pool.drop_card(uuid)
        else:
            self._pool.put_card(row.card)

    def _put_ticket(self, row: TicketRow) -> None:
        if row.only_card is not None:
            self._pinned[row.waiting.task_id] = row
        else:
            self._pool.put_ticket(row.waiting)

    def _heard_before(self) -> frozenset[str]:
        heard, self.heard = self.heard, frozenset()
        return heard

    def _words(self, now: float) -> dict[str, Told]:
        told = {}
        laid_out = forecast(self._pool, now, first=TOLD_MAX)
        why = why_not_yet(self._pool, laid_out, now)
        for task_id, one in laid_out.items():
            told[task_id] = Told(task_id=task_id, position=one.position, eta_s=one.eta_s, why=why[task_id])
            if one.eta_s is not None:
                self._first_told.setdefault(task_id, (now, one.eta_s))
        return told

    async def _think(self, thought: Callable[[], T]) -> T:
        """Compute beside the event loop, on which workflows run, where it takes more than a moment."""
        return thought() if len(self._pool.tickets) < MANY else await asyncio.to_thread(thought)

    async def _drop_gone(self) -> None:
        """Forget those of the first who wait no more; the others are noticed when their turn comes."""
        first = [waiting.task_id for waiting in self._pool.order(TOLD_MAX)]
        if not first:
            return
        async with self._database.read() as reader:
            there = await leases.still_waiting(reader, first)
        for task_id in first:
            if task_id not in there:
                self._pool.drop_ticket(task_id)

    async def _tell(self, now: float) -> None:
        """Say to each of the first who wait its place, its estimate and why not yet; only what is new."""
        if time.monotonic() - self._told_at < TELL_EACH_S:
            return
        self._told_at = time.monotonic()
        await self._drop_gone()
        if not self._pool.tickets:
            self._told.clear()
            self._first_told.clear()
            return
        told = await self._think(lambda: self._words(now))
        news = [one for task_id, one in told.items() if one != self._told.get(task_id)]
        self._told = told
        if news:
            async with self._database.single_statement() as tx:
                await leases.tell(tx, news)
