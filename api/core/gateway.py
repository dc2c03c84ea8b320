"""Generations as the API reaches them: their workflows' messages, behind a port."""

import asyncio
from datetime import timedelta
from typing import Protocol

from temporalio.client import Client
from temporalio.service import RPCError

from infra.operators import Courses, ServerCourses
from infra.settings import Settings
from infra.temporal import generations, sweeping
from infra.temporal.connection import TemporalNotConfiguredError, connect
from workflows.contracts.generation import Admission, CancelReply, CancelRequest, GenerationRequest
from workflows.contracts.sweep import SweepOrder, SweepReport

HEALTH_S = 0.5
_NO_ANSWER = (RPCError, RuntimeError, TemporalNotConfiguredError)
"""A lazy client's failed first connection is a RuntimeError."""


class Generations(Protocol):
    """What a surface may ask of workflows. Errors are those of `infra.temporal.generations`."""

    async def admit(self, request: GenerationRequest) -> Admission:
        """Start the generation, or join it."""
        ...

    async def request_cancel(self, task_id: str, request: CancelRequest) -> CancelReply:
        """Ask for a cancel and answer honestly."""
        ...

    async def reachable(self) -> bool:
        """Whether the workflow server answers."""
        ...

    async def courses(self) -> Courses:
        """What operators ask of workflows."""
        ...

    async def sweep(self, order: SweepOrder) -> SweepReport | None:
        """Sweep now; None when that takes longer than somebody waits."""
        ...


class TemporalGenerations:
    """The real one. Its client connects with the first call and again after each loss."""

    def __init__(self, settings: Settings) -> None:
        """Connects to nothing."""
        self._settings = settings
        self._client: Client | None = None

    async def admit(self, request: GenerationRequest) -> Admission:
        """See `infra.temporal.generations.admit`."""
        return await generations.admit(await self._connected(), request)

    async def request_cancel(self, task_id: str, request: CancelRequest) -> CancelReply:
        """See `infra.temporal.generations.request_cancel`."""
        return await generations.request_cancel(await self._connected(), task_id, request)

    async def reachable(self) -> bool:
        """Whether the server says that it serves, within half a second."""
        try:
            async with asyncio.timeout(HEALTH_S):
                client = await self._connected()
                return await client.service_client.check_health(timeout=timedelta(seconds=HEALTH_S))
        except (TimeoutError, *_NO_ANSWER):
            return False

    async def courses(self) -> Courses:
        """Those of the server."""
        return ServerCourses(await self._connected())

    async def sweep(self, order: SweepOrder) -> SweepReport | None:
        """See `infra.temporal.sweeping.sweep_now`."""
        return await sweeping.sweep_now(await self._connected(), order)

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await connect(self._settings, lazy=True)
        return self._client
