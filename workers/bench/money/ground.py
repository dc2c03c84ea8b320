"""A database of a check's own, and all that a check does in it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from infra import generations, leases, ledger
from infra.db import Database, DatabaseBusy, Query, load
from infra.ledger.audit import INVARIANTS
from workers.bench.money.lives import CAPABILITY, ENGINE, artifact
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import (
    AcceptLease,
    Admission,
    Advance,
    Closing,
    GenerationRequest,
    KeepOrder,
    LeaseGrant,
    MarkUnknown,
    Release,
    Requeue,
    Settle,
)
from workflows.contracts.hosts import CardReport, HostReport, OrderRequest
from workflows.contracts.states import Phase, Status

T = TypeVar("T")
QUERIES = load(__package__)
STEP_S = 60
"""For one step on a busy machine; a step that takes longer hangs."""


class Loop:
    """An event loop in a thread of its own, for Hypothesis, which is not asynchronous."""

    def __init__(self) -> None:
        """Start it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in the loop and wait."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout=STEP_S)

    def close(self) -> None:
        """Stop it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Standing(NamedTuple):
    """Where a generation stands, as the database has it."""

    phase: Phase
    unknown: bool
    doubted: bool
    kept: bool
    lease: LeaseGrant | None
    boot_id: str


async def prepare(conninfo: str) -> None:
    """Make a migrated database one that can be checked: a clock that a check moves, all invariants in one view."""
    async with Database(conninfo, application="check", pool_max=1) as database, database.transaction() as tx:
        for name in ("schema", "make_move_clock", "make_watch"):
            await tx.run(QUERIES[name])
        names = [query.name for query in INVARIANTS]
        await tx.one(QUERIES["watch"], names=names, texts=[query.text.strip() for query in INVARIANTS])


class Ground:
    """The steps that processes and operators take, each as they take it: one transaction, mostly one statement."""

    def __init__(self, database: Database, watch: Database) -> None:
        """Take steps in one, look with the other."""
        self._database = database
        self._watch = watch

    async def call(self, name: str, **parameters: Any) -> Any:
        """One of the queries beside this module, by itself."""
        async with self._database.single_statement() as tx:
            return await tx.value(QUERIES[name], **parameters)

    async def look(self, accounts: list[str]) -> tuple[dict[str, Any], list[str]]:
        """What each account has, and every invariant that doesn't hold now, in words."""
        async with self._watch.read() as reader:
            rows = await reader.all(QUERIES["look"], accounts=accounts)
        broken = [f"{row['name']} = {row['value']}: {row['detail']}" for row in rows if row["name"]]
        return {row["account_id"]: row for row in rows if row["account_id"]}, broken

    async def open_account(self, account_id: str, kind: ledger.AccountKind) -> None:
        """A new account."""
        async with self._database.transaction() as tx:
            await ledger.open_account(tx, account_id=account_id, kind=kind, name=account_id)

    async def admit(self, asked: GenerationRequest, **limits: int) -> Admission:
        """As the orchestrator does; an account that many want at once is waited for."""
        return await self._patiently(lambda tx: generations.admit(tx, asked, **limits))

    async def settle(self, task_id: str, amount: int) -> Closing:
        """Pay."""
        order = Settle(task_id=task_id, credits=amount, lease_id=None, actor="workflow:check")
        return await self._patiently(lambda tx: generations.settle(tx, order))

    async def release(self, task_id: str, status: Status, actor: str) -> Closing:
        """Give back."""
        failure = Failure(code=Code.UPSTREAM_FAILED, message="The engine failed.")
        order = Release(task_id=task_id, status=status, failure=failure, lease_id=None, actor=actor)
        return await self._patiently(lambda tx: generations.release(tx, order))

    async def _patiently(self, step: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        while True:
            try:
                async with self._database.single_statement() as tx:
                    return await step(tx)
            except DatabaseBusy:
                continue

    async def advance(self, task_id: str, phase: Phase) -> None:
        """Record a later phase."""
        async with self._database.single_statement() as tx:
            await generations.advance(tx, Advance(task_id=task_id, phase=phase))

    async def doubt(self, task_id: str, at: datetime) -> None:
        """Show that the outcome isn't known."""
        order = MarkUnknown(
            task_id=task_id, since=at, reason="silent", awaiting="a word", next_look_at=at, resolve_by=at
        )
        async with self._database.single_statement() as tx:
            await generations.mark_unknown(tx, order)

    async def keep(self, asked: GenerationRequest) -> None:
        """Keep a result."""
        order = KeepOrder(task_id=asked.task_id, account_id=asked.account_id, artifacts=(artifact(),))
        async with self._database.transaction() as tx:
            await generations.keep(tx, order)

    async def standing(self, task_id: str) -> Standing:
        """Where an admitted generation stands."""
        async with self._database.read() as reader:
            row = await reader.one(QUERIES["standing"], task_id=task_id)
        if row is None:
            raise AssertionError(f"generation {task_id} is gone")
        lease = None
        if row["lease_id"] is not None:
            lease = LeaseGrant.model_validate({name: row[name] for name in LeaseGrant.model_fields if name in row})
        return Standing(
            Phase(row["phase"]),
            row["credit_status"] == "unknown",
            row["doubted"],
            row["kept"],
            lease,
            row["boot_id"] or "",
        )

    async def use_lease(self, task_id: str, step: str) -> None:
        """Accept the latest lease, fetch its order, or queue its generation again."""
        found = await self.standing(task_id)
        if found.lease is None:
            return
        async with self._database.single_statement() as tx:
            if step == "accept":
                await leases.accept(tx, AcceptLease(task_id=task_id, lease=found.lease))
            elif step == "fetch":
                await leases.open_order(tx, _order(task_id, found))
            else:
                await leases.requeue(
                    tx, Requeue(task_id=task_id, lease=found.lease, never_ran=step == "requeue_proven")
                )

    async def report(self, card: str, boot_id: str, *, settled: bool) -> None:
        """A host's word on its card."""
        said = CardReport(
            card_uuid=card,
            label=card.upper(),
            gpu_model="CPU",
            vram_total_mib=4096,
            vram_free_mib=4096,
            engines=(ENGINE,),
            capabilities=(CAPABILITY,),
            boot_id=boot_id,
            settled_fence=1_000_000 if settled else 0,
        )
        async with self._database.single_statement() as tx:
            await leases.record_report(tx, HostReport(host="host-a", cards=(said,)))

    async def lapse(self) -> None:
        """Let all offers lapse."""
        async with self._database.transaction() as tx:
            await tx.run(QUERIES["lapse_offers"])
        async with self._database.single_statement() as tx:
            await leases.lapse(tx)

    async def tally(self) -> dict[str, int]:
        """How often what happened."""
        async with self._database.read() as reader:
            return {row["what"]: row["times"] for row in await reader.all(QUERIES["tally"])}

    async def order_of_holds(self, task_ids: list[str]) -> list[str]:
        """In which order they got their holds."""
        async with self._database.read() as reader:
            return [row["task_id"] for row in await reader.all(QUERIES["order_of_holds"], task_ids=task_ids)]


def _order(task_id: str, found: Standing) -> OrderRequest:
    if found.lease is None:
        raise AssertionError("no lease")
    return OrderRequest(
        task_id=task_id,
        lease_id=found.lease.lease_id,
        card_uuid=found.lease.card_uuid,
        fence=found.lease.fence,
        boot_id=found.boot_id,
        attach_only=False,
    )


__all__ = ["Ground", "Loop", "Query", "Standing", "prepare"]
