"""Credits that come, go and are held: the first half of the steps that the machine takes."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from infra.db.errors import Refused
from infra.ledger import AccountKind
from workers.bench.money.ground import Ground
from workers.bench.money.lives import Life, request
from workers.bench.money.purse import Purse
from workers.bench.money.scratch import Scratch
from workflows.contracts.failures import Code
from workflows.contracts.states import AdmissionOutcome

ACCOUNTS = {"acc-one": AccountKind.USER, "acc-two": AccountKind.ORGANISATION}
CARDS = tuple(f"card-{number}" for number in range(6))
IN_FLIGHT_MAX = 10
EPOCH = datetime(2100, 1, 1, tzinfo=UTC)
"""Credits expire so many days after this: far from the present, until a step lets dates pass."""

FIRST_CREDITS = 120
"""Of each account, so that most holds are possible and the last ones are not."""

accounts = st.sampled_from(sorted(ACCOUNTS))
indices = st.integers(0, 10_000)
"""Choose one of those that there are, the latest with 0."""
amounts = st.integers(1, 60)


class Holds(RuleBasedStateMachine):
    """One database, two accounts, six cards."""

    scratch: ClassVar[Scratch]
    happened: ClassVar[Counter[str]] = Counter()

    @initialize()
    def begin(self) -> None:
        """An empty database for this life."""
        self.place = self.scratch.enter()
        self.ground = Ground(self.place.database, self.place.watch)
        self.purses = {account_id: Purse() for account_id in ACCOUNTS}
        self.known: list[Life] = []
        self.boots = dict.fromkeys(CARDS, 1)
        self.keys = 0
        for account_id, kind in ACCOUNTS.items():
            self.run(self.ground.open_account(account_id, kind))
            self.run(self.ground.call("grant", **_grant(account_id, FIRST_CREDITS, self.key())))
            self.purses[account_id].plain = FIRST_CREDITS

    def teardown(self) -> None:
        """Leave the database behind."""
        if hasattr(self, "place"):
            self.happened.update(self.run(self.ground.tally()))
            self.scratch.leave(self.place)

    def run(self, coroutine: Any) -> Any:
        """Take one step and wait for it."""
        return self.scratch.loop.run(coroutine)

    def refused(self, coroutine: Any) -> bool:
        """Take one step; whether the database refused it."""
        try:
            self.run(coroutine)
        except Refused:
            return True
        return False

    def key(self) -> str:
        """A key that wasn't used before."""
        self.keys += 1
        return f"key-{self.keys}"

    # Credits come and go without a generation.

    @rule(account_id=accounts, amount=amounts, again=st.booleans())
    def top_up(self, account_id: str, amount: int, again: bool) -> None:
        """Credits that never expire, once for each key."""
        order = _grant(account_id, amount, self.key())
        assert self.run(self.ground.call("grant", **order))["made"]
        self.purses[account_id].plain += amount
        if again:
            assert not self.run(self.ground.call("grant", **order))["made"]
            assert self.refused(self.ground.call("grant", **(order | {"amount": amount + 1})))

    @rule(account_id=accounts, amount=st.integers(1, 9), date=st.integers(1, 30))
    def promote(self, account_id: str, amount: int, date: int) -> None:
        """Credits that expire."""
        self._promote(account_id, amount, date)

    def _promote(self, account_id: str, amount: int, date: int) -> None:
        order = _grant(account_id, amount, self.key())
        order |= {"cause": "promotion", "expires_at": EPOCH + timedelta(days=date)}
        assert self.run(self.ground.call("grant", **order))["made"]
        self.purses[account_id].promise(amount, date)

    @rule(date=st.integers(1, 30))
    def dates_pass(self, date: int) -> None:
        """What expires up to a date is due."""
        self.run(self.ground.call("move_clock", until=EPOCH + timedelta(days=date, hours=1)))
        for purse in self.purses.values():
            purse.pass_date(date)

    @rule()
    def sweep(self) -> None:
        """What is due is booked as lost."""
        self.run(self.ground.call("expire"))
        for purse in self.purses.values():
            purse.sweep()

    @rule(account_id=accounts, amount=st.integers(-40, 40).filter(bool))
    def adjust(self, account_id: str, amount: int) -> None:
        """A correction of the account alone."""
        purse = self.purses[account_id]
        order = {"account_id": account_id, "amount": amount, "task_id": None, "reason": "r", "key": self.key()}
        if amount < 0 and purse.available < -amount:
            assert self.refused(self.ground.call("adjust", **order))
            return
        assert self.run(self.ground.call("adjust", **order))["made"]
        self._move(purse, amount)

    @precondition(lambda self: self.known)
    @rule(index=indices, amount=st.integers(-20, 20).filter(bool))
    def adjust_generation(self, index: int, amount: int) -> None:
        """A correction that refers to a generation: never more is given back than was charged."""
        charged = [life for life in self.known if life.charged]
        life = self._one(charged or self.known, index)
        purse = self.purses[life.asked.account_id]
        order = {
            "account_id": life.asked.account_id,
            "amount": amount,
            "task_id": life.asked.task_id,
            "reason": "r",
            "key": self.key(),
        }
        fits = life.held and 0 <= life.given_back + amount <= life.charged and purse.available >= -amount
        assert self.refused(self.ground.call("adjust", **order)) is not fits
        if fits:
            life.given_back += amount
            self._move(purse, amount)

    def _move(self, purse: Purse, amount: int) -> None:
        if amount > 0:
            purse.sweep()
            purse.plain += amount
        else:
            purse.end(purse.hold(-amount), price=-amount, paid=-amount)

    @rule(account_id=accounts, frozen=st.sampled_from([False, False, False, True]))
    def freeze(self, account_id: str, frozen: bool) -> None:
        """No new holds, or again."""
        self.run(self.ground.call("freeze", account_id=account_id, frozen=frozen))
        self.purses[account_id].frozen = frozen

    @rule(
        account_id=accounts,
        in_flight=st.one_of(st.none(), st.integers(0, 12)),
        per_day=st.one_of(st.none(), st.integers(0, 300)),
    )
    def limit(self, account_id: str, in_flight: int | None, per_day: int | None) -> None:
        """A limit, or none any more."""
        bounds = json.dumps({"in_flight": in_flight, "credits_per_day": per_day})
        self.run(self.ground.call("limit", subject=f"account:{account_id}", bounds=bounds))
        purse = self.purses[account_id]
        purse.in_flight_max, purse.credits_per_day = in_flight, per_day

    @rule(account_id=accounts, amount=st.sampled_from(["-5", "0", "1.5", "1000000000001", "9223372036854775808"]))
    def refuse_nonsense(self, account_id: str, amount: str) -> None:
        """Amounts that are none, accounts that don't exist, reasons left empty: refused, and nothing changes."""
        order = _grant(account_id, 5, self.key())
        assert self.refused(self.ground.call("grant", **(order | {"amount": amount})))
        assert self.refused(self.ground.call("grant", **(order | {"account_id": "nobody"})))
        assert self.refused(self.ground.call("grant", **(order | {"reason": " "})))
        assert self.refused(self.ground.call("grant", **(order | {"actor": ""})))

    # Generations hold credits.

    def _mine(self, account_id: str) -> list[Life]:
        return [life for life in self.known if life.asked.account_id == account_id]

    def _refusal(self, life: Life) -> Code | None:
        """Why one more hold should be refused."""
        purse, mine = self.purses[life.asked.account_id], self._mine(life.asked.account_id)
        if purse.frozen:
            return Code.ACCOUNT_FROZEN
        if purse.available < life.price:
            return Code.INSUFFICIENT_CREDITS
        most = IN_FLIGHT_MAX if purse.in_flight_max is None else purse.in_flight_max
        if sum(one.open for one in mine) >= most:
            return Code.QUOTA_EXCEEDED
        if purse.credits_per_day is not None:
            used = sum(one.counted for one in mine if one.held)
            if used + life.price > purse.credits_per_day:
                return Code.SPENDING_LIMIT_REACHED
        return None

    @property
    def held(self) -> list[Life]:
        """Generations that ever held credits; those that still do three times as likely to be taken."""
        return [life for life in self.known if life.held] + 2 * self.open

    @property
    def open(self) -> list[Life]:
        """Generations that hold credits now."""
        return [life for life in self.known if life.open]

    def _one(self, lives: list[Life], index: int) -> Life:
        return lives[-1 - index % len(lives)]

    @rule(account_id=accounts, price=st.integers(0, 25))
    def ask(self, account_id: str, price: int) -> None:
        """A new request, and its admission."""
        self._admit(self._ask(account_id, price), next_attempt=True)

    def _ask(self, account_id: str, price: int) -> Life:
        life = Life(request(account_id, f"op-{len(self.known)}", price=price))
        self.known.append(life)
        return life

    @precondition(lambda self: self.known)
    @rule(index=indices, next_attempt=st.booleans())
    def admit_again(self, index: int, next_attempt: bool) -> None:
        """The same request again, also after its end; a refused one with its next attempt or the one of before."""
        self._admit(self._one(self.known, index), next_attempt=next_attempt)

    def _admit(self, life: Life, *, next_attempt: bool) -> None:
        attempt = life.attempt if next_attempt else 1
        expected = self._refusal(life)
        asked = life.asked.model_copy(update={"attempt": attempt})
        answer = self.run(self.ground.admit(asked, in_flight_max=IN_FLIGHT_MAX))
        if life.ended is not None:
            assert (answer.outcome, answer.credit_status) == (AdmissionOutcome.FINISHED, life.ended)
        elif life.held:
            assert answer.outcome is AdmissionOutcome.HELD
        elif attempt < life.attempt:
            assert answer.outcome is AdmissionOutcome.REFUSED
        else:
            assert (answer.refusal.code if answer.refusal else None) == expected
            self._take(life, answer.outcome)

    def _take(self, life: Life, outcome: AdmissionOutcome) -> None:
        """Believe the first answer to an admission."""
        purse = self.purses[life.asked.account_id]
        if outcome is AdmissionOutcome.HELD:
            life.held = True
            life.draws = purse.hold(life.price)
        else:
            life.attempt += 1

    @rule(account_id=accounts, prices=st.lists(st.integers(0, 25), min_size=2, max_size=5))
    def admit_at_once(self, account_id: str, prices: list[int]) -> None:
        """Several holds of one account at the same time, each asked for twice."""
        made = [self._ask(account_id, price) for price in prices]

        async def go() -> list[Any]:
            both = [self.ground.admit(life.asked, in_flight_max=IN_FLIGHT_MAX) for life in made * 2]
            return await asyncio.gather(*both)

        answers = self.run(go())
        by_task = {life.asked.task_id: life for life in made}
        for first, second in zip(answers[: len(made)], answers[len(made) :], strict=True):
            assert first.outcome is second.outcome
        held = {answer.task_id for answer in answers if answer.outcome is AdmissionOutcome.HELD}
        for task_id in self.run(self.ground.order_of_holds(sorted(held))):
            assert self._refusal(by_task[task_id]) is None
            self._take(by_task[task_id], AdmissionOutcome.HELD)
        for life in made:
            if life.asked.task_id not in held:
                assert self._refusal(life) is not None, "refused with room left"
                self._take(life, AdmissionOutcome.REFUSED)


def _grant(account_id: str, amount: int, key: str) -> dict[str, Any]:
    return {
        "account_id": account_id,
        "amount": amount,
        "cause": "top_up",
        "expires_at": None,
        "reason": "check",
        "actor": "operator:check",
        "key": key,
    }
