"""The placer: gives free cards to waiting generations, by the pure decision that the simulator runs too."""

from datetime import datetime

import structlog

from infra import leases
from infra.db import Database
from infra.db.clock import server_time
from workers.orchestration.loop import Loop
from workflows.domain.placement.decide import decide
from workflows.domain.placement.state import Ticket

log = structlog.get_logger(__name__)


class Placer(Loop):
    """One leader among all orchestrators. Its memory is only who had a turn last: losing it costs a turn."""

    role = "placer"
    channel = leases.PLACE_CHANNEL

    def __init__(self, database: Database) -> None:
        """Nothing is read yet."""
        super().__init__(database)
        self._served: dict[str, datetime] = {}
        self._told: dict[str, tuple[str, ...]] = {}

    async def turn(self) -> None:
        """Take lapsed offers back, look once, and offer what was decided; each offer is a compare-and-set."""
        async with self._database.single_statement() as tx:
            await leases.lapse(tx)
        async with self._database.read() as reader:
            now = await server_time(reader)  # reports bear the database's time: by another clock all may be silent
            cards, waiting = await leases.snapshot(reader)
        if not waiting:
            self._served.clear()
            self._told.clear()
            return
        decision = decide(now, cards, waiting, served=self._served)
        accounts = {ticket.task_id: ticket.account_id for ticket in waiting}
        for assignment in decision.assignments:
            async with self._database.single_statement() as tx:
                offered = await leases.offer(tx, assignment)
            if offered:
                self._served[accounts[assignment.task_id]] = now
                log.info("offered", task_id=assignment.task_id, card=assignment.card_uuid)
        self._tell(waiting, decision.reasons)

    def _tell(self, waiting: tuple[Ticket, ...], reasons: dict[str, tuple[str, ...]]) -> None:
        """Log why somebody waits once for each new reason, not once a second."""
        for ticket in waiting:
            why = reasons.get(ticket.task_id, ())
            if why and self._told.get(ticket.task_id) != why:
                log.info("waits", task_id=ticket.task_id, why=list(why))
        self._told = reasons
