"""The host's word to the API: each card, once a second and at every change."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping, Sequence

import structlog

from activities.card_desk import CardDesk
from infra.gpu.inventory import Card
from infra.hosts.client import ApiAway, ApiRefused, HostClient
from workers.watching import Watch
from workflows.contracts import timeouts
from workflows.contracts.hosts import CardReport, ClaimRefused, HostReport, ReportTaken, Running, Telemetry

TELL_WITHIN_S = 1.0
"""How long the end of a run waits for its report to be taken; the next one carries the same."""
CLEAN_SLATE = 2**53
"""Said as `settled_fence` once, by an agent whose journal and engine had nothing open when it started: whatever
was leased before is over. The API bounds it by what was leased."""

log = structlog.get_logger(__name__)


class Reporter:
    """Sends reports; never gives up, since a card without fresh reports takes no new work."""

    def __init__(
        self,
        *,
        boot_id: str,
        host_id: str,
        watches: Sequence[Watch],
        desks: Mapping[str, CardDesk],
        client: HostClient,
        engines: dict[str, int] | None = None,
    ) -> None:
        """Report nothing yet.

        Args:
            boot_id: Of this agent.
            host_id: Of this host, see `infra.hosts.identity`.
            watches: Where cards are looked at.
            desks: Cards that have an engine here; added to while it runs.
            client: Of the API.
            engines: The process of each card's engine; kept up to date from here, where each is asked anyway.
        """
        self._boot_id = boot_id
        self._host_id = host_id
        self._refused: frozenset[ClaimRefused] = frozenset()
        self._watches = watches
        self._engines = {} if engines is None else engines
        self._desks = desks
        self._client = client
        self._clean: set[str] = set()
        self._wanted = asyncio.Event()
        self._taken = asyncio.Condition()
        self._taken_begun = 0.0
        self._away_since: float | None = None

    def clean_slate(self, card_uuid: str) -> None:
        """Say of a card, until it was heard once, that everything leased so far is over."""
        self._clean.add(card_uuid)

    async def tell(self) -> None:
        """Report now; returns when a report that began after this was taken, or after `TELL_WITHIN_S`."""
        asked = time.monotonic()
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TELL_WITHIN_S), self._taken:
                await self._taken.wait_for(lambda: self._taken_begun >= asked)

    async def run(self) -> None:
        """Report until canceled."""
        while True:
            self._wanted.clear()
            began = time.monotonic()
            await self._report(began)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeouts.BEAT.total_seconds() - (time.monotonic() - began))):
                    await self._wanted.wait()

    async def _report(self, began: float) -> None:
        clean = frozenset(self._clean)
        cards = [card for watch in self._watches for card in await watch.cards()]
        report = HostReport(
            host=socket.gethostname(),
            host_id=self._host_id,
            cards=tuple([await self._card(card, clean=card.uuid in clean) for card in cards]),
        )
        try:
            answer = await self._client.report(report)
        except (ApiAway, ApiRefused) as error:
            if self._away_since is None:
                self._away_since = began
                log.warning("report_not_taken", reason=repr(error))
            return
        if self._away_since is not None:
            log.info("reports_taken_again", after_s=round(time.monotonic() - self._away_since, 1))
            self._away_since = None
        for said in report.cards:
            self._forget_measured(said)
        not_ours = self._heed(answer)
        self._clean -= clean - not_ours
        for uuid, desk in self._desks.items():
            if uuid in not_ours:
                desk.owned.clear()
            else:
                desk.owned.set()
        async with self._taken:
            self._taken_begun = began
            self._taken.notify_all()

    def _heed(self, answer: ReportTaken) -> frozenset[str]:
        """The cards that aren't ours, as the answer says; each change of it is said in the log."""
        refused = frozenset(answer.refused)
        for claim in refused - self._refused:
            log.error("card_refused", card=claim.card_uuid, reason=claim.reason)
        for claim in self._refused - refused:
            log.info("card_ours_again", card=claim.card_uuid)
        self._refused = refused
        return frozenset(claim.card_uuid for claim in refused)

    async def _card(self, card: Card, *, clean: bool) -> CardReport:
        desk = self._desks.get(card.uuid)
        probe = await desk.engine.probe() if desk is not None else None
        if probe is not None and probe.pid is not None:
            self._engines[card.uuid] = probe.pid
        settled_fence, known_fence, running = 0, 0, None
        if desk is not None:
            settled_fence = await asyncio.to_thread(desk.journal.settled_fence, card.uuid)
            known_fence = await asyncio.to_thread(desk.journal.known_fence, card.uuid)
            running = desk.running or await asyncio.to_thread(_left_open, desk)
        return CardReport(
            card_uuid=card.uuid,
            label=card.label,
            gpu_model=card.model,
            vram_total_mib=card.memory_total_mib,
            vram_free_mib=card.memory_free_mib,
            engines=(desk.engine.kind,) if desk is not None and probe is not None else (),
            capabilities=desk.engine.capabilities if desk is not None and probe is not None else (),
            boot_id=self._boot_id,
            running=running,
            settled_fence=CLEAN_SLATE if clean else settled_fence,
            known_fence=known_fence,
            refused_order=desk.refused_order if desk is not None else None,
            foreign_mib=card.foreign_mib,
            residents=probe.residents if probe is not None else (),
            telemetry=Telemetry(
                utilisation=card.utilisation,
                temperature_c=card.temperature_c,
                power_w=card.power_w,
                ecc_errors=card.ecc_errors,
                xid=card.xid,
                processes=card.processes,
                nonsense=card.nonsense,
            ),
            measured=tuple(desk.measured) if desk is not None else (),
        )

    def _forget_measured(self, said: CardReport) -> None:
        desk = self._desks.get(said.card_uuid)
        if desk is not None:
            desk.measured[:] = [run for run in desk.measured if run not in said.measured]


def _left_open(desk: CardDesk) -> Running | None:
    """A run of which this host can't say yet that it is over, though no step of it is here now."""
    entry = next(iter(desk.journal.open_runs(desk.card_uuid)), None)
    return Running(task_id=entry.task_id, fence=entry.fence, fraction=0.0) if entry else None
