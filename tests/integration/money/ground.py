"""A server that dies on purpose, and how a step is taken on it: without a kill, with one, with its answer lost."""

import os
import re
import signal
import time

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from temporalio.exceptions import ApplicationError

from activities.failures import DATABASE_AWAY
from infra.db import Database, Query
from tests.integration.money.scenarios import Scenario
from tests.integration.money.setting import Setting, Step
from tests.integration.money.traces import reader_of_traces, traces
from tests.support.generations import Ways
from tests.support.statement_faults import VICTIM, aim, compile_points

BACK_S = 30.0
NAMES = Query("fault_names", "select current_setting('fault.names', true) as names")
PID = Query("backend_pid", "select pg_backend_pid() as pid")

WHOLE = frozenset(("hold", "settle", "release", "resolve"))
"""Steps that are killed at each of their points, whatever other steps were killed at."""
Left = dict[str, list[str]]
"""What a step left behind, by table."""


class Ground:
    """A database with points in it, and how one run follows the other."""

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        self.victims = make_conninfo(conninfo, user=VICTIM)
        self.compiled = compile_points(conninfo)
        self._reader = reader_of_traces(conninfo)
        self.passed: set[str] = set()
        self.ran: set[str] = set()
        self._killed: set[tuple[str, str, int]] = set()
        self._runs = 0

    def setting(self, database: Database) -> Setting:
        self._runs += 1
        return Setting(self._runs, database, self.conninfo)

    def connect(self, *, dies: bool = False) -> Database:
        """A pool of one connection, as of a process that has just begun."""
        return Database(self.victims if dies else self.conninfo, application="test", pool_max=1)

    def is_new(self, scenario: Scenario, point: str, before: int) -> bool:
        """Whether nobody was killed at this point yet, passed so many times `before`.

        Hold, settle, release and resolve are each killed at every point of their own; other steps share what they
        have in common with these.
        """
        step = scenario.name.partition(" ")[0].rstrip(",")
        places = {(step, point, before), ("any", point, before)}
        mine = (step if step in WHOLE else "any", point, before)
        new = mine not in self._killed
        self._killed |= places
        return new

    async def without_kill(self, scenario: Scenario) -> tuple[list[str], object, Left]:
        """The points that the step passes, its answer, and what it leaves behind."""
        aim(self.conninfo, 0)
        self.ran.add(scenario.name)
        async with self.connect() as calm, self.connect(dies=True) as doomed:
            setting = self.setting(calm)
            await scenario.before(setting)
            answer = await scenario.step(Step(doomed), setting)
            path = await self._note(doomed)
            left = self._left(setting)
            assert await Ways(calm).breaches() == []
        return path, _comparable(answer), left

    async def with_lost_answer(self, scenario: Scenario) -> tuple[object, Left]:
        """The same, where the server dies right after the commit: the step, whose answer is lost, is repeated."""
        aim(self.conninfo, 0)
        async with self.connect() as calm, self.connect(dies=True) as doomed:
            setting = self.setting(calm)
            await scenario.before(setting)
            await scenario.step(Step(doomed), setting)
            with psycopg.connect(self.conninfo) as witness:
                async with doomed.read() as reader:
                    os.kill(await reader.value(PID), signal.SIGKILL)
                self.wait_until_back(witness)
        async with self.connect(dies=True) as fresh:
            answer = await scenario.step(Step(fresh), setting)
            await self._note(fresh)
            assert await Ways(fresh).breaches() == []
        return _comparable(answer), self._left(setting)

    async def with_kill(self, scenario: Scenario, at: int) -> tuple[object, Left]:
        """The same, where the server's process dies at point number `at` and the step is tried again."""
        aim(self.conninfo, at)
        async with self.connect() as calm, self.connect(dies=True) as doomed:
            setting = self.setting(calm)
            await scenario.before(setting)
            with psycopg.connect(self.conninfo) as witness:
                with pytest.raises(ApplicationError) as died:
                    await scenario.step(Step(doomed), setting)
                self.wait_until_back(witness)
        assert (died.value.type, died.value.non_retryable) == (DATABASE_AWAY, False)
        async with self.connect() as fresh:
            answer = await scenario.step(Step(fresh), setting)
            assert await Ways(fresh).breaches() == []
        return _comparable(answer), self._left(setting)

    async def _note(self, victim: Database) -> list[str]:
        """The points that the victim's session has passed."""
        async with victim.read() as reader:
            names: str = await reader.value(NAMES)
        self.passed |= set(names.split())
        return names.split()

    def _left(self, setting: Setting) -> Left:
        return traces(self.conninfo, self._reader, setting.names())

    def wait_until_back(self, witness: psycopg.Connection) -> None:
        """Wait for the recovery: Postgres ends every process when one was killed, the witness' too, and until it
        has read its log again it answers nobody.
        """
        deadline = time.monotonic() + BACK_S
        while time.monotonic() < deadline:
            try:
                if not witness.closed:
                    witness.execute("select 1")
                else:
                    psycopg.connect(self.conninfo).close()
                    return
            except psycopg.OperationalError:
                pass
            time.sleep(0.002)  # a poll with the deadline above
        raise AssertionError("Postgres did not recover")


def _comparable(answer: object) -> object:
    """Without the ids that no two generations share."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", repr(answer))
    text = re.sub(r"'transfer_id': \d+|'set_at': '[^']*'|acc-\w+", "<other>", text)
    return re.sub(r"task_id='[^']*'|(?i:card-)\d+|(?i:capability-)\d+", "<id>", text)
