"""A load of small generations from several accounts, kept up while hosts die."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

import httpx

from infra.db import Database, DatabaseTrouble, load
from workers.bench.awaiting import eventually
from workers.bench.pictures import picture
from workers.bench.visitor import UnexpectedAnswer, Visitor

_QUERIES = load(__package__)
SIDES = (96, 96, 160, 160, 224, 224, 320, 512)
"""Pixels. On two cores shared by all, from half a second to some ten: the longest outlive their agent's absence. A
task that was given to another card too early would be seen to run on both."""
TOP_UP_EACH_S = 0.2
ACCEPTED_WITHIN_S = 60


class Load:
    """Keeps so many generations of each account open until told to stop.

    Attributes:
        accepted: Ids of generations that were accepted.
        refused: What callers were answered instead, each with how often.
    """

    def __init__(self, database: Database, guests: Sequence[Visitor], *, in_flight: int, chance: Random) -> None:
        """Ask for nothing yet."""
        self._database = database
        self._guests = guests
        self._in_flight = in_flight
        self._chance = chance
        self._asking: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._stopping = asyncio.Event()
        self.accepted: set[str] = set()
        self.refused: Counter[str] = Counter()

    @property
    def accounts(self) -> list[str]:
        """Of the callers."""
        return [guest.account_id for guest in self._guests]

    def stop(self) -> None:
        """Ask for nothing more; `run` ends once what was asked is answered."""
        self._stopping.set()

    async def run(self) -> None:
        """Ask until told to stop.

        Raises:
            TimeoutError: The API gave no answer for long.
        """
        while not self._stopping.is_set():
            still_open = await self._open()
            for guest in self._guests:
                lacking = self._in_flight - still_open[guest.account_id] - self._asking[guest.account_id]
                for _ in range(lacking):
                    self._ask(guest)
            await asyncio.sleep(TOP_UP_EACH_S)
        await asyncio.gather(*self._tasks)

    async def _open(self) -> Counter[str]:
        try:
            async with self._database.read() as reader:
                rows = await reader.all(_QUERIES["open_by_account"], accounts=self.accounts)
        except DatabaseTrouble:  # slow, beside so much else on few cores
            return Counter(dict.fromkeys(self.accounts, self._in_flight))
        return Counter({row["account_id"]: row["open"] for row in rows})

    def _ask(self, guest: Visitor) -> None:
        self._asked += 1
        self._asking[guest.account_id] += 1
        task = asyncio.create_task(self._create(guest, self._asked, self._chance.choice(SIDES)))
        self._tasks.add(task)

    async def _create(self, guest: Visitor, number: int, side: int) -> None:
        """Create one, asking again with the same operation id until there is an answer."""
        image = await asyncio.to_thread(picture, side, side, seed=number)

        async def accepted() -> str:
            return (await guest.create(image, operation_id=f"pool-{number}")).task_id

        try:
            task_id = await eventually(accepted, within_s=ACCEPTED_WITHIN_S, despite=(httpx.HTTPError,))
            self.accepted.add(task_id)
        except UnexpectedAnswer as answer:
            self.refused[str(answer)] += 1
        finally:
            self._asking[guest.account_id] -= 1
