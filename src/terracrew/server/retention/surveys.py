"""Surveys that may take minutes: the first request starts one, all requests share it, and its result is kept for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.retention import policy, usage
from terracrew.server.retention.usage import Preview, Usage
from terracrew.server.settings import ServerSettings

T = TypeVar("T")
FRESH_SECONDS = 30.0
WAIT_SECONDS = 2.0
"""How long a request waits for the result before it is told how far the counting is."""


class SurveyProgress(msgspec.Struct, frozen=True):
    """The counting is not finished: ask again."""

    counting: str
    elapsed_seconds: float


class Survey(Generic[T]):
    def __init__(self, count: Callable[[Callable[[str], None]], Awaitable[T]]) -> None:
        self._count = count
        self._task: asyncio.Task[T] | None = None
        self._started_at = self._finished_at = 0.0
        self._counting = ""

    async def current(self) -> T | SurveyProgress:
        """Return the result, at most half a minute old; how far it is, where it takes longer than a request should."""
        now = time.monotonic()
        is_old = self._task is not None and self._task.done() and now - self._finished_at > FRESH_SECONDS
        if self._task is None or is_old:
            self._started_at = now
            self._task = asyncio.create_task(self._run())
        await asyncio.wait([self._task], timeout=WAIT_SECONDS)
        if self._task.done():
            return self._task.result()
        return SurveyProgress(self._counting, time.monotonic() - self._started_at)

    async def _run(self) -> T:
        try:
            return await self._count(self._tell)
        finally:
            self._finished_at = time.monotonic()

    def _tell(self, what: str) -> None:
        self._counting = what


class Surveys:
    """The two that a server has."""

    def __init__(self, db: Database, objects: Objects, settings: ServerSettings) -> None:
        kept = policy.of(settings)
        late = settings.late_delivery_days * policy.DAY_SECONDS
        self.usage = Survey[Usage](lambda tell: usage.usage(db, objects, kept, late, tell))
        self.preview = Survey[Preview](lambda tell: usage.preview(db, objects, kept, late, tell))
