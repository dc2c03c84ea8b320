"""A thousand lives at random against a small model of what should be true; the audit is clean after each step."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from infra import generations, leases, ledger
from infra.db import Database, Query
from infra.db.errors import ContradictoryClosing, HoldExceeded
from tests.support.generations import Ways, order, request
from tests.support.postgres import PostgresServer
from workflows.contracts.generation import (
    AcceptLease,
    Advance,
    GenerationRequest,
    LeaseGrant,
    MarkUnknown,
    Requeue,
)
from workflows.contracts.states import AdmissionOutcome, CreditStatus, Phase, Status
from workflows.domain.placement.fleet import Given

T = TypeVar("T")
STEPS = 50
LIVES = 50
OPERATIONS_MIN = 2_000
"""Hypothesis ends some lives early; this many operations must have happened, each followed by the whole audit."""
ACCOUNTS = ("acc-one", "acc-two")
CARDS = ("card-a", "card-b")

LAPSE_NOW = Query("lapse_now", "update lease set lapses_at = clock_timestamp() where state = 'offered'")
LATEST_LEASE = Query(
    "latest_lease",
    "select l.id::text as lease_id, l.card_uuid, c.label as card_label, l.fence, c.boot_id"
    " from lease l join card c on c.uuid = l.card_uuid where l.task_id = %(task_id)s"
    " order by l.offered_at desc limit 1",
)


class Loop:
    """An event loop in a thread, for Hypothesis, which is not asynchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout=30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Life:
    """What the model believes of one generation."""

    def __init__(self, asked: GenerationRequest) -> None:
        self.asked = asked
        self.held = False
        self.ended: CreditStatus | None = None
        self.charged = 0
        self.attempt = 1
        self.kept = False


class Platform(RuleBasedStateMachine):
    """Rules are the steps that any process may take, in any order, any number of times."""

    server: PostgresServer
    loop: Loop
    operations = 0
    lives = Bundle("lives")

    @initialize()
    def begin(self) -> None:
        self.name = self.server.create_database()
        self.database = Database(self.server.conninfo(self.name), application="model", pool_max=2)
        self.loop.run(self.database.open())
        self.ways = Ways(self.database)
        self.granted = dict.fromkeys(ACCOUNTS, 0)
        self.known: list[Life] = []
        self.boots = dict.fromkeys(CARDS, 1)
        for account_id in ACCOUNTS:
            self.loop.run(self._open(account_id))

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.loop.run(self.database.close())
            self.server.drop_database(self.name)

    async def _open(self, account_id: str) -> None:
        async with self.database.transaction() as tx:
            await ledger.open_account(tx, account_id=account_id, kind=ledger.AccountKind.USER, name=account_id)

    def _available(self, account_id: str) -> int:
        mine = [life for life in self.known if life.asked.account_id == account_id]
        open_holds = sum(life.asked.price_credits for life in mine if life.held and life.ended is None)
        return self.granted[account_id] - open_holds - sum(life.charged for life in mine)

    @rule(account_id=st.sampled_from(ACCOUNTS), amount=st.integers(1, 60), again=st.booleans())
    def grant(self, account_id: str, amount: int, again: bool) -> None:
        async def go(key: str) -> bool:
            async with self.database.transaction() as tx:
                return await ledger.grant(
                    tx, account_id=account_id, credits=amount, reason="model", actor="model", key=key
                )

        key = f"{account_id}-{self.granted[account_id]}-{amount}"
        assert self.loop.run(go(key))
        self.granted[account_id] += amount
        if again:
            assert not self.loop.run(go(key))

    @rule(target=lives, account_id=st.sampled_from(ACCOUNTS), price=st.integers(0, 25))
    def ask(self, account_id: str, price: int) -> Life:
        life = Life(request(account_id, f"op-{len(self.known)}", price=price))
        self.known.append(life)
        return life

    @rule(life=lives, next_attempt=st.booleans())
    def admit(self, life: Life, next_attempt: bool) -> None:
        affordable = self._available(life.asked.account_id) >= life.asked.price_credits
        attempt = life.attempt if next_attempt else 1
        answer = self.loop.run(self.ways.admit(life.asked.model_copy(update={"attempt": attempt})))
        if life.ended is not None:
            assert (answer.outcome, answer.credit_status) == (AdmissionOutcome.FINISHED, life.ended)
        elif life.held or (affordable and attempt == life.attempt):
            assert answer.outcome is AdmissionOutcome.HELD
            life.held = True
        else:
            assert answer.outcome is AdmissionOutcome.REFUSED
            life.attempt = max(life.attempt, attempt + 1)

    def _pending(self, life: Life) -> bool:
        return life.held and life.ended is None

    @rule(life=lives, share=st.integers(0, 110))
    def settle(self, life: Life, share: int) -> None:
        if not life.held:
            return
        amount = life.asked.price_credits * share // 100
        try:
            closing = self.loop.run(self.ways.settle(life.asked.task_id, amount, "operator:model"))
        except HoldExceeded:
            assert self._pending(life)
            assert amount > life.asked.price_credits
            return
        except ContradictoryClosing:
            assert life.ended is CreditStatus.SETTLED
            assert life.charged != amount
            return
        if self._pending(life):
            life.ended, life.charged = CreditStatus.SETTLED, amount
        assert closing.credit_status is life.ended

    @rule(life=lives, end=st.sampled_from([Status.FAILED, Status.CANCELED, Status.EXPIRED]))
    def release(self, life: Life, end: Status) -> None:
        if not life.held:
            return
        closing = self.loop.run(self.ways.release(life.asked.task_id, end))
        if self._pending(life):
            life.ended = CreditStatus.RELEASED
        assert closing.credit_status is life.ended

    @rule(life=lives, phase=st.sampled_from([Phase.RUNNING, Phase.INSPECTING, Phase.KEEPING, Phase.WAITING]))
    def advance(self, life: Life, phase: Phase) -> None:
        async def go() -> None:
            record = await self.ways.record(life.asked)
            if record.phase is Phase.WAITING or phase is Phase.RUNNING:
                return  # a workflow records a run only by its order, and what follows only after one
            async with self.database.single_statement() as tx:
                await generations.advance(tx, Advance(task_id=life.asked.task_id, phase=phase))

        if life.held:
            self.loop.run(go())

    @rule(life=lives)
    def mark_unknown(self, life: Life) -> None:
        async def go() -> None:
            if (await self.ways.record(life.asked)).phase is Phase.WAITING:
                return  # nothing ran, nothing is unknown
            at = life.asked.expires_at
            async with self.database.single_statement() as tx:
                await generations.mark_unknown(
                    tx,
                    MarkUnknown(
                        task_id=life.asked.task_id,
                        since=at,
                        reason="r",
                        awaiting="a",
                        next_look_at=at,
                        resolve_by=at,
                    ),
                )

        if life.held:
            self.loop.run(go())

    @rule(life=lives)
    def keep(self, life: Life) -> None:
        if life.held:
            self.loop.run(self.ways.keep(life.asked))

    @rule(card=st.sampled_from(CARDS), settled=st.booleans(), reboot=st.booleans())
    def report(self, card: str, settled: bool, reboot: bool) -> None:
        self.boots[card] += reboot
        fence = 1_000_000 if settled else 0
        self.loop.run(self.ways.report(card, boot_id=f"boot-{self.boots[card]}", settled_fence=fence))

    @rule(life=lives, card=st.sampled_from(CARDS))
    def offer(self, life: Life, card: str) -> None:
        async def go() -> bool:
            async with self.database.single_statement() as tx:
                return await leases.offer(tx, Given(life.asked.task_id, (card,)))

        assert self.loop.run(go()) in ((False, True) if self._pending(life) else (False,))

    @rule(life=lives, step=st.sampled_from(["accept", "fetch", "requeue", "requeue_proven"]))
    def use_lease(self, life: Life, step: str) -> None:
        async def go() -> None:
            lease, boot_id = await self._lease(life)
            if lease is None:
                return
            async with self.database.single_statement() as tx:
                if step == "accept":
                    await leases.accept(tx, AcceptLease(task_id=life.asked.task_id, lease=lease))
                elif step == "fetch":
                    await leases.open_order(tx, order(life.asked.task_id, lease, boot_id=boot_id))
                else:
                    proven = step == "requeue_proven"
                    await leases.requeue(tx, Requeue(task_id=life.asked.task_id, lease=lease, never_ran=proven))

        self.loop.run(go())

    async def _lease(self, life: Life) -> tuple[LeaseGrant | None, str]:
        async with self.database.read() as reader:
            row = await reader.one(LATEST_LEASE, task_id=life.asked.task_id)
        return (LeaseGrant.model_validate(row), row["boot_id"]) if row else (None, "")

    @rule()
    def lapse(self) -> None:
        async def go() -> None:
            async with self.database.transaction() as tx:
                await tx.run(LAPSE_NOW)
            async with self.database.single_statement() as tx:
                await leases.lapse(tx)

        self.loop.run(go())

    @invariant()
    def money_is_as_the_model_says(self) -> None:
        if not hasattr(self, "database"):
            return
        for account_id in ACCOUNTS:
            available, held, spent = self.loop.run(self.ways.balance(account_id))
            assert available == self._available(account_id)
            assert available + held + spent == self.granted[account_id]

    @invariant()
    def the_audit_is_clean(self) -> None:
        if hasattr(self, "database"):
            assert self.loop.run(self.ways.breaches()) == []
            type(self).operations += 1


@pytest.fixture
def worker() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_order_of_steps_keeps_money_media_and_machine_in_agreement(
    postgres: PostgresServer, worker: Loop
) -> None:
    class Bound(Platform):
        server, loop = postgres, worker

    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=LIVES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,  # a failure in CI is the same failure here
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Bound.operations >= OPERATIONS_MIN
