"""One account with one generation, brought to where a step that moves credits begins."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from activities.failures import told_to_temporal
from activities.ledger import LedgerActivities
from infra import leases
from infra.db import Database, Query
from tests.support.generations import SNAPSHOT, Ways, order, request
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import GenerationRequest, LeaseGrant, MarkUnknown, Release, Settle
from workflows.contracts.states import Status

PRICE = 10
CREDITS = 25

GRANT = Query(
    "grant",
    "select grant_v1(%(account)s, %(credits)s, %(cause)s, %(expires_at)s, 'a reason', 'operator:ada', %(key)s)",
)
ADJUST = Query(
    "adjust", "select adjust_v1(%(account)s, %(credits)s, %(task)s, 'a reason', 'operator:ada', %(key)s)"
)
FREEZE = Query("freeze", "select freeze_v1(%(account)s, true, 'a reason', 'operator:ada')")
LIMIT = Query("limit", "select set_limit_v1(%(subject)s, %(limit)s::jsonb, 'a reason', 'operator:ada')")
RESOLVE = Query(
    "resolve",
    "select resolve_v1(%(task)s, %(credits)s, 'failed', %(failure)s::jsonb, 'a reason', 'operator:ada')",
)
DELIVER_LATE = Query("deliver_late", "select deliver_late_v1(%(task)s, 'workflow:late')")
KEY = Query(
    "key",
    "insert into api_key (id, account_id, name, secret_sha256, scopes, created_by)"
    " values (%(key)s::text, %(account)s, 'k', md5(%(key)s::text) || md5(%(key)s::text), '{}', 'test')"
    " returning id",
)
EXPIRE = Query("expire", "select expire_lots_v1(null, 100)")

_PAST = "update holdfast.{} set expires_at = expires_at - interval '200 years' where {} = %s"
"""What expires first still does."""


class Step:
    """What a step is given: the platform's own activities, and functions that operators' commands call."""

    def __init__(self, database: Database) -> None:
        """Use this database."""
        self._database = database
        self.ledger = LedgerActivities(database=database)

    async def call(self, query: Query, **parameters: Any) -> object:
        """Call one function, in a transaction of its own."""
        with told_to_temporal():
            async with self._database.single_statement() as tx:
                return await tx.value(query, **parameters)


@dataclass
class Setting:
    """One account with one request, and a card that fits nobody else's.

    Attributes:
        number: Sets this run apart from the others in the same database.
        database: Used by what goes before the step.
        conninfo: Of the same database, for what no part of the platform may do.
    """

    number: int
    database: Database
    conninfo: str
    asked: GenerationRequest = field(init=False)
    lease: LeaseGrant | None = None

    @property
    def ways(self) -> Ways:
        """Short ways through the database."""
        return Ways(self.database)

    @property
    def before(self) -> Step:
        """A step that is taken before the one that is tested."""
        return Step(self.database)

    @property
    def account(self) -> str:
        """Who pays."""
        return self.asked.account_id

    @property
    def task(self) -> str:
        """The generation."""
        return self.asked.task_id

    @property
    def failure(self) -> str:
        """Why the generation didn't complete."""
        return self.releasing().failure.model_dump_json()

    def names(self) -> dict[str, str]:
        """What differs from run to run."""
        card = f"card-{self.number:05}"
        return {
            "task": self.task,
            "account": self.account,
            "operation": self.asked.operation_id,
            "card": card,
            "label": card.upper(),
            "capability": self.asked.model.capability,
            "key": f"key_{self.number:08}",
        }

    async def begin(self, *, credits_granted: int = CREDITS, card: bool = True, canary: bool = False) -> None:
        """An account, a request, and a card unless the request shall wait for one."""
        capability = f"capability-{self.number:05}"
        account = await self.ways.account(credits_granted)
        model = SNAPSHOT.model_copy(update={"capability": capability, "model_id": f"model-{capability}"})
        self.asked = request(account, f"operation-{self.number:05}", price=PRICE, model=model, is_canary=canary)
        if card:
            await self.ways.report(f"card-{self.number:05}", capabilities=(capability,))

    async def promise(self, *amounts: int, due: bool = False) -> None:
        """`begin`, and credits that expire, the later ones later."""
        await self.begin()
        for number, amount in enumerate(amounts, 1):
            await self.before.call(GRANT, **self.promotion(amount, number))
        if due:
            self.move_the_clock()

    def promotion(self, amount: int, number: int = 1) -> dict[str, Any]:
        """An order for credits that expire."""
        expires_at = datetime(2100, 1, number, tzinfo=UTC)
        return self.granting(amount, number) | {"cause": "promotion", "expires_at": expires_at}

    def granting(self, amount: int, number: int = 1) -> dict[str, Any]:
        """An order for credits."""
        return {
            "account": self.account,
            "credits": amount,
            "cause": "top_up",
            "expires_at": None,
            "key": f"{self.account}:{number}",
        }

    def adjusting(self, amount: int, task: str | None = None) -> dict[str, Any]:
        """An order to correct."""
        return {"account": self.account, "credits": amount, "task": task, "key": f"{self.account}:adjust"}

    async def key(self) -> str:
        """A key of the account."""
        key = f"key_{self.number:08}"
        await self.before.call(KEY, key=key, account=self.account)
        return key

    def limiting(self, **limit: int) -> dict[str, Any]:
        """An order to limit the account; without a bound, to take its limit away."""
        bounds = ", ".join(f'"{name}": {bound}' for name, bound in limit.items())
        key = self.asked.key_id
        return {"subject": f"key:{key}" if key else f"account:{self.account}", "limit": f"{{{bounds}}}"}

    def move_the_clock(self) -> None:
        """Let all of the account's credits that expire be past their date. Only a test can: the rows are kept."""
        with psycopg.connect(self.conninfo) as connection:
            connection.execute("set session_replication_role = replica")
            for table, column in (("credit_lot", "account_id"), ("transfer", "credit_account")):
                connection.execute(_PAST.format(table, column).encode(), (self.account,))

    async def hold(self, **changes: Any) -> None:
        """`begin`, and an admission."""
        await self.begin(**changes)
        self.lease = (await self.ways.admit(self.asked)).lease

    async def hold_promises(self, *amounts: int, due: bool = False) -> None:
        """`promise`, and an admission; then the credits' date passes where `due`."""
        await self.promise(*amounts)
        self.lease = (await self.ways.admit(self.asked)).lease
        if due:
            self.move_the_clock()
        await self.ways.keep(self.asked)

    async def run(self, **changes: Any) -> None:
        """`hold`, and an engine's run with its kept result."""
        await self.hold(**changes)
        assert self.lease is not None
        async with self.database.single_statement() as tx:
            await leases.open_order(tx, order(self.task, self.lease))
        await self.ways.keep(self.asked)

    async def settled(self) -> None:
        """`run`, paid."""
        await self.run()
        await self.ways.settle(self.task, PRICE)

    async def crowd(self) -> None:
        """A queue in which nobody has room."""
        await self.begin(card=False)
        model = self.asked.model.model_copy(update={"queue_max": 0})
        self.asked = self.asked.model_copy(update={"model": model})

    async def refused(self) -> None:
        """An admission that was refused."""
        await self.begin(credits_granted=PRICE - 1)
        await self.ways.admit(self.asked)

    async def doubt(self) -> None:
        """`run`, whose outcome nobody knows."""
        await self.run()
        await self.before.ledger.mark_unknown(self.unknown())

    async def lost(self) -> None:
        """`doubt`, released at the house's cost."""
        await self.doubt()
        await self.before.ledger.release(self.releasing(actor="manifest:release_unknown"))

    async def with_key(self) -> None:
        """`begin`, and a request that came with a key."""
        await self.begin()
        self.asked = self.asked.model_copy(update={"key_id": await self.key(), "made_by": "key"})

    async def limited(self, **limit: int) -> None:
        """`begin`, with a limit."""
        await self.begin()
        await self.before.call(LIMIT, **self.limiting(**limit))

    async def hold_limited(self) -> None:
        """A held price that counts against a limit."""
        await self.limited(credits_per_day=100)
        self.lease = (await self.ways.admit(self.asked)).lease

    def unknown(self) -> MarkUnknown:
        """The order that shows a doubt."""
        now = datetime.now(UTC)
        return MarkUnknown(
            task_id=self.task,
            since=now,
            reason="the host is silent",
            awaiting="the host's journal",
            next_look_at=now + timedelta(seconds=5),
            resolve_by=now + timedelta(hours=24),
        )

    def settling(self, amount: int = PRICE, actor: str = "workflow:test") -> Settle:
        """The order to pay."""
        return Settle(task_id=self.task, credits=amount, lease_id=None, actor=actor)

    def releasing(self, status: Status = Status.FAILED, actor: str = "workflow:test") -> Release:
        """The order to give back."""
        failure = Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
        return Release(task_id=self.task, status=status, failure=failure, lease_id=None, actor=actor)
