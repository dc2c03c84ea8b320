"""One kill after another: each generation ends in the right picture, or its credits are back."""

import hashlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from infra.db import Database, DatabaseTrouble, load
from workers.bench.awaiting import eventually
from workers.bench.visitor import UnexpectedAnswer, Visitor
from workers.cli.report import Figure
from workers.drill.audit import breaches
from workers.drill.cases import POINTS, Case, Moment, Victim
from workers.drill.gates import gate
from workers.drill.processes import NotRunning, kill, pid_of

_QUERIES = load(__package__)

END_S = 150
"""A killed step without beats is tried again after its own limit, 120 s at most; the rest is margin."""
WHOLE_S = 60
_TROUBLES = (httpx.HTTPError, UnexpectedAnswer, DatabaseTrouble)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one case ended.

    Attributes:
        case: Its name.
        ok: Whether it ended right.
        seconds: From the request to the end.
        status: Of the task; empty when it never ended.
        credit_status: Of the task.
        picture: `right`, `wrong`, or `none` when nothing was delivered.
        breaches: Invariants that the audit found broken.
        note: What went wrong in the drill itself.
    """

    case: str
    ok: bool
    seconds: float
    status: str = ""
    credit_status: str = ""
    picture: str = "none"
    breaches: tuple[str, ...] = ()
    note: str = ""

    def figure(self) -> Figure:
        """As it stands in the report."""
        goal = "right picture or released hold, clean audit"
        return Figure(self.case, round(self.seconds, 1), "s", goal, self.ok, asdict(self))


class KillDrill:
    """Runs cases against one stack, whose generations all have the same input."""

    def __init__(self, *, home: Path, database: Database, visitor: Visitor, image: bytes) -> None:
        """Prepare; `baseline` comes before the first case."""
        self._home = home
        self._database = database
        self._visitor = visitor
        self._image = image
        self._expected = ""

    async def baseline(self) -> str:
        """Run undisturbed once; the digest that every later result must have."""
        await self._whole()
        created = await self._visitor.create(self._image)
        await self._visitor.complete(created.task_id, within_s=END_S)
        self._expected = await self._digest(created.task_id)
        return self._expected

    async def run(self, case: Case) -> Ending:
        """Run one case; whatever happens is in the answer."""
        began = time.monotonic()
        try:
            await self._whole()
            began = time.monotonic()
            task_id = await self._disturbed(case)
            return await self._ending(case, task_id, began)
        except Exception as error:  # noqa: BLE001 - a fault in one case must not hide what the others showed
            note = f"{type(error).__name__}: {error}" + (f" ({error.__cause__})" if error.__cause__ else "")
            return Ending(case.name, ok=False, seconds=time.monotonic() - began, note=note)

    async def _disturbed(self, case: Case) -> str:
        """Create a generation and kill while it is where the case says; its id."""
        if case.point is not None:
            self._marker(case.point).unlink(missing_ok=True)  # arms the point
            return await self._to_the_point(case.point)
        if case.victim is None or case.moment is None:
            raise ValueError(f"{case.name} names no victim and moment")
        at = gate(case.moment, database=self._database, home=self._home, account_id=self._visitor.account_id)
        async with at as reached:
            task_id = await self._create()
            await reached(task_id)
            kill(case.victim, self._home)
        return task_id

    async def _to_the_point(self, point: str) -> str:
        """Create one that passes the point: who waited accepts, who is canceled releases."""
        moment = {"accept": Moment.HELD, "release": Moment.RUNNING}.get(point.partition(".")[0])
        if moment is None:
            return await self._create()
        at = gate(moment, database=self._database, home=self._home, account_id=self._visitor.account_id)
        async with at as reached:
            task_id = await self._create()
            await reached(task_id)
            if moment is Moment.RUNNING:
                await eventually(lambda: self._visitor.cancel(task_id), within_s=WHOLE_S, despite=_TROUBLES)
        return task_id

    async def _create(self) -> str:
        """Create, asking again with the same operation id until it is accepted, as a client is told to."""
        operation_id = f"drill-{time.time_ns()}"

        async def accepted() -> str:
            return (await self._visitor.create(self._image, operation_id=operation_id)).task_id

        return await eventually(accepted, within_s=WHOLE_S, despite=_TROUBLES)

    async def _ending(self, case: Case, task_id: str, began: float) -> Ending:
        async def ended() -> dict[str, Any]:
            task = await self._visitor.look(task_id)
            if task["status"] == "pending":
                raise UnexpectedAnswer(f"{task_id} is still {task['phase']}, {task['credits']['status']}")
            return task

        task = await eventually(ended, within_s=END_S, despite=_TROUBLES)
        seconds = time.monotonic() - began
        credit_status = str(task["credits"]["status"])
        completed = task["status"] == "completed"
        picture = "none"
        if completed:
            digest = await eventually(lambda: self._digest(task_id), within_s=WHOLE_S, despite=_TROUBLES)
            picture = "right" if digest == self._expected else "wrong"
        broken = await breaches(self._database)
        right = (picture == "right" and credit_status == "settled") or (
            not completed and credit_status == "released"
        )
        note = ""
        if case.point is not None and not self._marker(case.point).exists():
            right, note = False, "the point was never passed"
        return Ending(
            case.name,
            ok=right and not broken,
            seconds=seconds,
            status=str(task["status"]),
            credit_status=credit_status,
            picture=picture,
            breaches=broken,
            note=note,
        )

    async def _digest(self, task_id: str) -> str:
        return hashlib.sha256(await self._visitor.fetch(task_id)).hexdigest()

    async def _whole(self) -> None:
        """Wait until every part is up and a card takes work; all points are disarmed."""
        for point in POINTS:
            self._marker(point).parent.mkdir(parents=True, exist_ok=True)
            self._marker(point).touch()

        async def whole() -> bool:
            for victim in Victim:
                pid_of(victim, self._home)
            async with self._database.read() as reader:
                free = await reader.value(_QUERIES["free_cards"])
            if not free:
                raise NotRunning("no card takes work")
            if not await self._visitor.model_is_ready():
                raise NotRunning("the model isn't ready")
            return True

        await eventually(whole, within_s=WHOLE_S, despite=(NotRunning, *_TROUBLES))

    def _marker(self, point: str) -> Path:
        return self._home / "faults" / point
