"""One lease's run on one card: journal, attach, else submit, follow, deliver.

What it answers is proven, or `unknown`.
"""

import asyncio
import shutil
import time

import structlog

from activities import card_memory, card_supply, outcomes
from activities.card_desk import CardDesk
from infra import faults
from infra.engines.port import EngineFailure, OutputSpec, Sighting, Submission
from infra.engines.states import RunState
from infra.hosts.client import BytesWrong
from infra.hosts.journal import Entry, FenceBehind, JournalUnwritable, Step
from infra.orders import OrderRefused
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import RunOrder, RunOutcome
from workflows.contracts.hosts import OrderFault, Running, StaleLease, Work
from workflows.contracts.media import BlobRef
from workflows.contracts.states import RunVerdict

SUBMISSIONS_MAX = 2
"""A run whose engine died is submitted once more within the same step."""
KILLS_MAX = 3
"""A job under which so many engines died on this host is the cause, and is failed."""
ASK_AGAIN_S = 0.2
FRACTION_MAX = 0.99
"""Nothing is done before its result is stored."""

log = structlog.get_logger(__name__)


class CardRun:
    """One try of one lease's run."""

    def __init__(self, desk: CardDesk, order: RunOrder, *, scheduled_at: float) -> None:
        """Prepare.

        Args:
            desk: The card.
            order: The lease.
            scheduled_at: Unix seconds when the step was first scheduled; a journal lost after that proves nothing.
        """
        self._desk = desk
        self._order = order
        self._scheduled_at = scheduled_at
        self._stop_wanted = asyncio.Event()
        self._submissions = 0
        self._submitted_before = False
        self._ahead: asyncio.Task[Work | StaleLease] | None = None
        self._engine_had_it = False
        self._silent_since: float | None = None
        self._deadline_at: float | None = None
        self._ends_at: float | None = None
        self._asked: int | None = None  # outputs; not known to a try that only found the run
        self._progress: tuple[RunState, float] | None = None
        self._progress_at = time.monotonic()
        self.delivering = False
        self.fraction = 0.0

    def stop(self) -> None:
        """Ask for the run to be stopped; what became of it is answered by the course."""
        self._stop_wanted.set()

    async def course(self) -> RunOutcome:
        """Run, or with `attach_only` look; the outcome is journaled and reported before it is returned.

        Raises:
            TryAgain: Nothing is decided yet.
        """
        key = (self._order.task_id, self._order.fence)
        self._desk.active.add(key)
        try:
            entry, outcome = await self._open_entry()
            if entry is not None and outcome is None:
                self._desk.running = Running(task_id=entry.task_id, fence=entry.fence, fraction=0.0)
                if not self._submitted_before and not self._order.attach_only:
                    # What was never tried here is hardly ever in the engine: the order is fetched beside the look.
                    self._ahead = asyncio.create_task(card_supply.fetch_order(self._desk, entry))
                card_memory.begin(self._desk)
                outcome = await self._pursue(entry)
                card_memory.end(self._desk, entry, outcome)
                await card_memory.make_room(self._desk, outcome)
                await self._close(entry, outcome)
            if outcome is None:
                raise AssertionError("a run without an entry needs an outcome")
            return outcome
        finally:
            if self._ahead is not None:
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)
            if self._desk.meter is not None:
                self._desk.meter.end()
            self._desk.active.discard(key)
            self._desk.running = None

    async def _open_entry(self) -> tuple[Entry | None, RunOutcome | None]:
        """The lease's entry, made where there is none, and the outcome where it is known already."""
        journal, order = self._desk.journal, self._order
        lost_at = journal.lost_at
        self._submitted_before = lost_at is not None and self._scheduled_at < lost_at
        entry = Entry(
            task_id=order.task_id,
            fence=order.fence,
            card_uuid=order.card_uuid,
            lease_id=order.lease_id,
            run_id=f"{order.task_id}-{order.fence}",
            step=Step.ASKED,
        )
        try:
            entry, is_known = await asyncio.to_thread(journal.begin, entry)
        except JournalUnwritable as error:
            log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all
            if self._submitted_before:
                return None, outcomes.unknown("the journal was lost, and can't be written")
            return None, outcomes.refused_here("The host can't journal the run.", f"journal: {error}")
        if not is_known or entry.step is Step.ASKED:
            return entry, None
        self._end_at(entry.deadline_at)
        self._engine_had_it = entry.step is Step.SUBMITTED
        self._submitted_before = True  # an intent too: the try that wrote it may have got further
        if entry.step is Step.CLOSED:
            return entry, entry.outcome or outcomes.superseded("given up: nobody waited", ran=True)
        return entry, None

    async def _pursue(self, entry: Entry) -> RunOutcome:
        """Look, submit where nothing is there, follow, and again when the engine died under it."""
        seen = await self._attach(entry)
        while True:
            if seen.state in (RunState.ABSENT, RunState.LOST):
                gone = await self._gone(entry, seen)
                if gone is not None:
                    return gone
                started = await self._submit(entry)
                if isinstance(started, RunOutcome):
                    return started
                seen = started
            elif seen.state.is_alive:
                seen = await self._follow(entry, seen)
            elif seen.state is RunState.SILENT:
                still = await self._wait_for_answer(entry, seen)
                if isinstance(still, RunOutcome):
                    return still
                seen = still
            elif seen.state is RunState.FINISHED:
                outcome = await self._deliver(entry, seen)
                if outcome is not None:
                    return outcome
                seen = Sighting(seen.run_id, RunState.LOST)
            else:
                return self._ended(entry, seen)

    async def _attach(self, entry: Entry) -> Sighting:
        """What the engine has of the task, under this lease or an earlier one whose run goes on or is done."""
        own = await self._desk.engine.attach(entry.run_id)
        if own.state in (RunState.ABSENT, RunState.LOST):
            for earlier in await asyncio.to_thread(self._desk.journal.of_task, entry.card_uuid, entry.task_id):
                if earlier.run_id == own.run_id or (earlier.step is Step.CLOSED and earlier.outcome is None):
                    continue
                seen = await self._desk.engine.attach(earlier.run_id)
                if seen.state.is_alive or seen.state is RunState.FINISHED:
                    own = seen
                    break
        if own.state.is_alive or own.state is RunState.FINISHED:
            await self._record_submitted(entry, own)
        return own

    async def _gone(self, entry: Entry, seen: Sighting) -> RunOutcome | None:
        """What follows when the engine hasn't got the run; None when it is to be submitted."""
        had = self._submissions > 0 or self._engine_had_it
        ran = had or seen.state is RunState.LOST
        if seen.crashed or (had and seen.state is RunState.ABSENT):
            kills = await self._count_crash(entry)
            log.warning("engine_died_under_run", task_id=entry.task_id, fence=entry.fence, kills=kills)
            if kills >= KILLS_MAX:
                return outcomes.failed("The engine failed.", f"{kills} engines died under this run", ran=True)
        if self._stop_wanted.is_set():
            if not ran:
                await card_supply.prove_ownership(self._desk, entry)
            evidence = "the engine lost the run" if ran else "the engine never had the run"
            return RunOutcome(verdict=RunVerdict.CANCELED, may_have_run=ran, evidence=evidence)
        if self._order.attach_only:
            return await self._looked_in_vain(entry, ran=ran)
        if self._submissions >= SUBMISSIONS_MAX:
            return outcomes.failed("The engine failed.", f"lost {self._submissions} times in one step", ran=True)
        if self._past_deadline():
            return outcomes.failed("The run took longer than its limit.", "past its deadline", ran=ran)
        return None

    async def _looked_in_vain(self, entry: Entry, *, ran: bool) -> RunOutcome:
        if ran:
            return outcomes.lost("the engine lost the run and left no result")
        if self._submitted_before and not self._desk.engine.keeps_records and self._desk.journal.lost_at:
            return outcomes.unknown("the journal was lost, and the engine keeps no records")
        await card_supply.prove_ownership(self._desk, entry)
        return outcomes.refused_here("The run never reached the engine.", "journal and engine know of no run")

    async def _submit(self, entry: Entry) -> Sighting | RunOutcome:
        ahead, self._ahead = self._ahead, None
        try:
            work = await (ahead or card_supply.fetch_order(self._desk, entry))
        except OrderRefused as refusal:
            return self._refused(entry, refusal)
        if isinstance(work, StaleLease):
            if work.stray:
                raise card_supply.TryAgain(work.reason)
            return outcomes.superseded(work.reason, ran=self._submissions > 0)
        folder = self._desk.folder / entry.run_id
        try:
            inputs, _ = await asyncio.gather(
                card_supply.fetch_inputs(self._desk, work, folder), self._intend(entry, work)
            )
        except FenceBehind as error:
            return self._refused(entry, OrderRefused(OrderFault.OLD_FENCE, str(error)))
        except (BytesWrong, OSError, JournalUnwritable) as error:
            return outcomes.refused_here(
                "The host can't hold the run's files.", f"{type(error).__name__}: {error}"
            )
        submission = Submission(
            run_id=entry.run_id,
            capability=work.capability,
            mode=work.mode,
            parameters=work.parameters,
            inputs=inputs,
            outputs=tuple(OutputSpec(o.role, o.mime, o.width, o.height) for o in work.outputs),
        )
        self._submissions += 1
        self._asked = len(work.outputs)
        seen = await self._desk.engine.submit(submission)
        faults.point("run.submitted")
        if seen.state is not RunState.SILENT and not seen.refused:
            await self._record_submitted(entry, seen)
        self._progress_at = time.monotonic()
        return seen

    async def _follow(self, entry: Entry, seen: Sighting) -> Sighting:
        """One look further; tells the engine to stop, or ends it, where that is due."""
        self.fraction = max(self.fraction, min(seen.fraction, FRACTION_MAX))
        self._desk.running = Running(task_id=entry.task_id, fence=entry.fence, fraction=self.fraction)
        self._silent_since = None
        if self._stop_wanted.is_set() or self._past_deadline():
            return await self._stop_engine(seen)
        if (seen.state, seen.fraction) != self._progress:
            self._progress, self._progress_at = (seen.state, seen.fraction), time.monotonic()
        elif time.monotonic() - self._progress_at > self._desk.patience.stall_s:
            log.warning("run_stalled", task_id=entry.task_id, fraction=seen.fraction)
            await self._desk.keeper.restart()
            return await self._desk.engine.attach(seen.run_id)
        return await self._look_or_stop(seen)

    async def _look_or_stop(self, seen: Sighting) -> Sighting:
        """The next sighting; a wish to stop cuts the wait short."""
        look = asyncio.create_task(self._desk.engine.follow(seen, wait_s=self._desk.patience.look_s))
        wish = asyncio.create_task(self._stop_wanted.wait())
        try:
            await asyncio.wait({look, wish}, return_when=asyncio.FIRST_COMPLETED)
            return look.result() if look.done() else seen
        finally:
            look.cancel()
            wish.cancel()
            await asyncio.gather(look, wish, return_exceptions=True)

    async def _stop_engine(self, seen: Sighting) -> Sighting:
        """Tell the engine to stop and wait for its word; to end one that doesn't obey is proof as well."""
        patience = self._desk.patience
        deadline = time.monotonic() + patience.stop_s
        seen = await self._desk.engine.cancel(seen.run_id)
        while (seen.state.is_alive or seen.state is RunState.SILENT) and time.monotonic() < deadline:
            seen = await self._desk.engine.follow(seen, wait_s=patience.look_s)
        if seen.state.is_alive or seen.state is RunState.SILENT:
            log.warning("engine_ignored_stop", run_id=seen.run_id)
            await self._desk.keeper.restart()
            seen = await self._desk.engine.attach(seen.run_id)
        if seen.state in (RunState.LOST, RunState.ABSENT):
            return Sighting(seen.run_id, RunState.CANCELED, boot_id=seen.boot_id)
        return seen

    async def _wait_for_answer(self, entry: Entry, seen: Sighting) -> Sighting | RunOutcome:
        """Ask a silent engine again; its keeper may be restarting it. Evidence ends when patience does."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since > self._desk.patience.silent_s:
            if self._submissions == 0 and not self._submitted_before:
                await card_supply.prove_ownership(self._desk, entry)
                return outcomes.refused_here(
                    "The card's engine is away.", "the engine gave no answer; nothing was sent"
                )
            return outcomes.unknown(f"the engine gave no answer for {self._desk.patience.silent_s:.0f} s")
        if self._submissions == 0:
            await asyncio.sleep(ASK_AGAIN_S)
            return await self._attach(entry)
        return await self._desk.engine.follow(seen, wait_s=self._desk.patience.look_s)

    async def _deliver(self, entry: Entry, seen: Sighting) -> RunOutcome | None:
        """Store the files under the lease's grant; None when the result proves unusable and is to be made anew."""
        self.delivering = True
        folder = self._desk.folder / entry.run_id
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        collection = await self._desk.engine.collect(seen.run_id, folder)
        if collection.failure is not None:
            log.warning("result_unusable", task_id=entry.task_id, detail=collection.failure.detail)
            await self._desk.engine.forget(seen.run_id)
            self.delivering = False
            return None
        stored: list[tuple[int, BlobRef]] = []
        files = [file for file in collection.files if self._asked is None or file.index < self._asked]
        for file in files:
            blob = await card_supply.store_file(self._desk, entry, file)
            if isinstance(blob, RunOutcome):
                return blob
            stored.append((file.index, blob))
        faults.point("run.uploaded")
        return outcomes.finished(
            stored, collection, engine_s=seen.engine_s, left_out=len(collection.files) - len(files)
        )

    def _ended(self, entry: Entry, seen: Sighting) -> RunOutcome:
        """FAILED or CANCELED, as the engine said."""
        if seen.state is RunState.CANCELED and not self._stop_wanted.is_set():
            # Ours, at the deadline; or somebody's at the engine itself.
            return outcomes.failed("The run took longer than its limit.", "stopped at its limit", ran=True)
        if seen.state is RunState.CANCELED:
            return RunOutcome(
                verdict=RunVerdict.CANCELED,
                engine_s=seen.engine_s,
                evidence="the engine confirmed that it stopped",
            )
        failure = seen.failure or EngineFailure(Code.UPSTREAM_FAILED, "The engine failed.")
        log.warning("run_failed", task_id=entry.task_id, code=failure.code.value, detail=failure.detail)
        return RunOutcome(
            verdict=RunVerdict.FAILED,
            failure=Failure(code=failure.code, message=failure.message),
            may_have_run=not seen.refused,
            engine_s=seen.engine_s,
            evidence="the engine refused it" if seen.refused else "the engine said so",
        )

    async def _close(self, entry: Entry, outcome: RunOutcome) -> None:
        """Journal, report idle, tidy up. Unknown leaves the entry open: the card isn't free."""
        if outcome.verdict is RunVerdict.UNKNOWN:
            return
        try:
            await asyncio.to_thread(self._desk.journal.close_run, entry, outcome)
        except JournalUnwritable as error:
            # The word stands; the entry stays open and is looked into later, so the card stays taken until then.
            log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all
            return
        self._desk.running = None
        await self._desk.tell()
        known = await asyncio.to_thread(self._desk.journal.find, entry.card_uuid, entry.task_id, entry.fence)
        await self._desk.engine.forget(known.run_id if known else entry.run_id)
        await asyncio.to_thread(shutil.rmtree, self._desk.folder / entry.run_id, ignore_errors=True)

    async def _record_submitted(self, entry: Entry, seen: Sighting) -> None:
        self._engine_had_it = self._submitted_before = True
        try:
            await asyncio.to_thread(self._desk.journal.submitted, entry, run_id=seen.run_id, boot_id=seen.boot_id)
        except JournalUnwritable as error:
            # The intent is there, which is what attaching needs; going on is safer than stopping a good run.
            log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all

    async def _count_crash(self, entry: Entry) -> int:
        try:
            return await asyncio.to_thread(self._desk.journal.crashed, entry)
        except JournalUnwritable as error:
            log.error("journal_unwritable", reason=str(error))  # noqa: TRY400 - the reason says it all
            return self._submissions

    async def _intend(self, entry: Entry, work: Work) -> None:
        """Journal that the engine is about to get it, now that its order is known to be the API's."""
        deadline_at = self._deadline_at or time.time() + work.run_s_max
        await asyncio.to_thread(self._desk.journal.intend, entry, deadline_at=deadline_at)
        self._end_at(deadline_at)
        faults.point("run.journaled")

    def _refused(self, entry: Entry, refusal: OrderRefused) -> RunOutcome:
        """Nothing is started under this order; what ran before it is over."""
        card_supply.note_refusal(self._desk, entry, refusal)
        if self._submissions > 0 or self._engine_had_it:
            return outcomes.lost(f"order refused: {refusal}")
        return outcomes.refused_here("The host refused the order.", f"order refused: {refusal}")

    def _past_deadline(self) -> bool:
        return self._ends_at is not None and time.monotonic() > self._ends_at

    def _end_at(self, deadline_at: float | None) -> None:
        """From here on time is what passes: a clock that is set, by a person or a time server, ends no run."""
        self._deadline_at = deadline_at
        self._ends_at = None if deadline_at is None else time.monotonic() + deadline_at - time.time()
