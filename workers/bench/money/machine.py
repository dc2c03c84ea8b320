"""Random lives of generations against the model; everything is compared after each step.

Rules are the steps that any process or operator may take, in any order, any number of times. Hypothesis chooses
them and, when one breaks something, looks for the shortest course that does.
"""

import asyncio
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from infra.db.errors import ContradictoryClosing, HoldExceeded
from workers.bench.money.holds import ACCOUNTS, CARDS, Holds, accounts, indices
from workers.bench.money.lives import Life
from workflows.contracts.generation import Closing
from workflows.contracts.states import CreditStatus, Phase, Status

WORKFLOW = "workflow:check"
LOSS = "manifest:release_unknown"
ENDINGS = st.sampled_from(["goes on", "goes on", "is unknown", "is resolved", "is found late"])
WITHOUT_RESULT = st.sampled_from([Status.FAILED, Status.CANCELED, Status.EXPIRED])


class Platform(Holds):
    """Ends, doubts and leases, and what is compared."""

    operations: ClassVar[int] = 0

    @precondition(lambda self: self.held)
    @rule(index=indices, share=st.integers(0, 110))
    def settle(self, index: int, share: int) -> None:
        """Pay a part, the whole, or more than is held."""
        life = self._one(self.held, index)
        self._settle(life, share)

    def _settle(self, life: Life, share: int) -> None:
        amount = life.price * share // 100
        self.run(self.ground.keep(life.asked))  # a workflow pays for what was kept
        try:
            closing = self.run(self.ground.settle(life.asked.task_id, amount))
        except HoldExceeded:
            assert life.open
            assert amount > life.price
            return
        except ContradictoryClosing:
            assert life.ended is CreditStatus.SETTLED
            assert life.charged != amount
            return
        self._believe(life, closing, amount)

    @rule(
        account_id=accounts,
        amounts=st.lists(st.integers(1, 9), min_size=2, max_size=3),
        dates=st.permutations([1, 2, 3]),
        share=st.integers(1, 99),
    )
    def pay_in_part_from_lots(self, account_id: str, amounts: list[int], dates: list[int], share: int) -> None:
        """A hold that draws from several lots, and pays less than it drew: what expires first is paid first."""
        for amount, date in zip(amounts, dates, strict=False):
            self._promote(account_id, amount, date)
        life = self._ask(account_id, sum(amounts))
        self._admit(life, next_attempt=True)
        if life.open:
            self._settle(life, share)

    @precondition(lambda self: self.held)
    @rule(index=indices, end=WITHOUT_RESULT, at_the_houses_cost=st.booleans())
    def release(self, index: int, end: Status, at_the_houses_cost: bool) -> None:
        """Give all back."""
        life = self._one(self.held, index)
        actor = LOSS if at_the_houses_cost else WORKFLOW
        self._believe(life, self.run(self.ground.release(life.asked.task_id, end, actor)), 0)

    def _believe(self, life: Life, closing: Closing, amount: int) -> None:
        """Take the first end for true; every later answer has to be the same."""
        if life.open:
            life.ended, life.status = closing.credit_status, closing.status
            life.charged = amount if closing.credit_status is CreditStatus.SETTLED else 0
            purse = self.purses[life.asked.account_id]
            purse.end(life.draws, price=life.price, paid=life.charged)
        assert (closing.credit_status, life.late or closing.status is life.status) == (life.ended, True)

    @precondition(lambda self: self.open)
    @rule(index=indices, amount=st.integers(0, 25), end=WITHOUT_RESULT)
    def end_at_once(self, index: int, amount: int, end: Status) -> None:
        """A settlement, two releases and an operator at the same time, when the hold is open: one end."""
        life = self._one(self.open, index)
        task_id, amount = life.asked.task_id, min(amount, life.price)
        self.run(self.ground.keep(life.asked))

        async def go() -> tuple[Any, ...]:
            return await asyncio.gather(
                self.ground.settle(task_id, amount),
                self.ground.release(task_id, end, WORKFLOW),
                self.ground.release(task_id, Status.CANCELED, WORKFLOW),
                self.ground.call("resolve", task_id=task_id, amount=amount, reason="r"),
                return_exceptions=True,
            )

        closings = [answer for answer in self.run(go()) if isinstance(answer, Closing)]
        assert len(closings) == 3
        for closing in closings:
            self._believe(life, closing, amount)

    @precondition(lambda self: self.held)
    @rule(index=indices, share=st.one_of(st.none(), st.integers(0, 110)), reason=st.sampled_from(["r", " "]))
    def resolve(self, index: int, share: int | None, reason: str) -> None:
        """An operator's decision: of what is unknown only, with a reason, once."""
        life = self._one([life for life in self.open if life.doubted] or self.held, index)
        self._resolve(life, share, reason)

    def _resolve(self, life: Life, share: int | None, reason: str) -> None:
        amount = None if share is None else life.price * share // 100
        possible = life.open and reason.strip() != "" and (amount or 0) <= life.price
        unknown = self.run(self.ground.standing(life.asked.task_id)).unknown
        order = self.ground.call("resolve", task_id=life.asked.task_id, amount=amount, reason=reason)
        if not life.open:
            self.refused(
                order
            )  # repeated by the same operator it answers, else it is refused; both change nothing
        elif not (possible and unknown):
            assert self.refused(order)
        else:
            answer = self.run(order)
            life.ended, life.status = CreditStatus(answer["credit_status"]), Status(answer["status"])
            assert life.ended is (CreditStatus.RELEASED if amount is None else CreditStatus.SETTLED)
            life.charged = amount or 0
            self.purses[life.asked.account_id].end(life.draws, price=life.price, paid=life.charged)

    @precondition(lambda self: self.open)
    @rule(index=indices)
    def doubt(self, index: int) -> None:
        """Nobody knows what became of a run."""
        life = self._one(self.open, index)
        if self.run(self.ground.standing(life.asked.task_id)).phase is not Phase.WAITING:
            self.run(self.ground.doubt(life.asked.task_id, life.asked.expires_at))
            life.doubted = True

    @precondition(lambda self: self.held)
    @rule(index=indices)
    def deliver_late(self, index: int) -> None:
        """A result that was found after a release without an outcome: free, once."""
        life = self._one([life for life in self.known if life.doubted and life.ended] or self.held, index)
        self._deliver_late(life)

    def _deliver_late(self, life: Life) -> None:
        standing = self.run(self.ground.standing(life.asked.task_id))
        fits = (
            life.ended is CreditStatus.RELEASED
            and life.status in {Status.FAILED, Status.EXPIRED}
            and standing.doubted
            and standing.kept
        )
        assert self.refused(self.ground.call("deliver_late", task_id=life.asked.task_id)) is not (
            fits or life.late
        )
        life.late = life.late or fits

    @precondition(lambda self: self.held)
    @rule(index=indices)
    def keep(self, index: int) -> None:
        """A result is kept."""
        life = self._one(self.held, index)
        self.run(self.ground.keep(life.asked))

    @precondition(lambda self: self.open)
    @rule(index=indices, phase=st.sampled_from([Phase.RUNNING, Phase.INSPECTING, Phase.KEEPING, Phase.WAITING]))
    def advance(self, index: int, phase: Phase) -> None:
        """A later phase. A workflow records a run only by its order, and what follows only after one."""
        life = self._one(self.open, index)
        if phase is not Phase.RUNNING:
            standing = self.run(self.ground.standing(life.asked.task_id))
            if standing.phase is not Phase.WAITING:
                self.run(self.ground.advance(life.asked.task_id, phase))

    @rule(card=st.sampled_from(CARDS), settled=st.booleans(), reboot=st.booleans())
    def report(self, card: str, settled: bool, reboot: bool) -> None:
        """A host's word."""
        self.boots[card] += reboot
        self.run(self.ground.report(card, f"boot-{self.boots[card]}", settled=settled))

    @precondition(lambda self: self.open)
    @rule(index=indices, card=st.sampled_from(CARDS))
    def offer(self, index: int, card: str) -> None:
        """A card is offered; only to who waits."""
        life = self._one(self.open, index)
        offered = self.run(self.ground.call("offer", task_id=life.asked.task_id, card_uuid=card))
        assert life.open or not offered

    @precondition(lambda self: self.held)
    @rule(index=indices, step=st.sampled_from(["accept", "fetch", "requeue", "requeue_proven"]))
    def use_lease(self, index: int, step: str) -> None:
        """The latest lease is accepted, its order fetched, or its generation queued again."""
        life = self._one(self.held, index)
        self.run(self.ground.use_lease(life.asked.task_id, step))

    @precondition(lambda self: self.open)
    @rule(index=indices, card=st.sampled_from(CARDS), keeps=st.booleans(), ending=ENDINGS)
    def run_one(self, index: int, card: str, keeps: bool, ending: str) -> None:
        """What usually happens: a free card takes one that waits; its result is kept, or its outcome unknown."""
        life = self._one(self.open, index)
        task_id = life.asked.task_id
        self.run(self.ground.report(card, f"boot-{self.boots[card]}", settled=True))
        self.run(self.ground.call("offer", task_id=task_id, card_uuid=card))
        for step in ("accept", "fetch"):
            self.run(self.ground.use_lease(task_id, step))
        if self.run(self.ground.standing(task_id)).phase is Phase.WAITING:
            return
        if keeps:
            self.run(self.ground.keep(life.asked))
        if ending == "goes on":
            return
        self.run(self.ground.doubt(task_id, life.asked.expires_at))
        life.doubted = True
        if ending == "is resolved":
            self._resolve(life, 50, "r")
        elif ending == "is found late":
            self._believe(life, self.run(self.ground.release(task_id, Status.FAILED, LOSS)), 0)
            self._deliver_late(life)

    @rule()
    def lapse(self) -> None:
        """Offers lapse."""
        self.run(self.ground.lapse())

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        """Each account's credits and lots, each hold, and every invariant of the audit, in one look."""
        if not hasattr(self, "place"):
            return
        figures, broken = self.run(self.ground.look(sorted(ACCOUNTS)))
        assert not broken, broken
        for account_id, purse in self.purses.items():
            found = figures[account_id]
            assert not (difference := purse.differs(found["available"], found["lots"] or [])), difference
            assert found["held"] == sum(life.price for life in self._mine(account_id) if life.open)
        type(self).operations += 1
